// Axes: linear, and "log", which is linear below the smallest positive value so that zero has a place.

function makeScale(values, kind, from, to, include) {
  const finite = values.filter((v) => typeof v === "number" && Number.isFinite(v));
  const positive = finite.map(Math.abs).filter((v) => v > 0);
  const knee = positive.length ? Math.min(...positive) : 1;
  const bend = kind === "log" ? (v) => Math.sign(v) * Math.log1p(Math.abs(v) / knee) : (v) => v;
  const all = finite.concat(include || []);
  let low = all.length ? Math.min(...all) : 0;
  let high = all.length ? Math.max(...all) : 1;
  if (low === high) {
    const room = low === 0 ? 1 : Math.abs(low) * 0.1;
    low -= room;
    high += room;
  }
  const ticks = kind === "log" ? logTicks(low, high, knee) : niceTicks(low, high, Math.abs(to - from) < 160 ? 5 : 7);
  const span = bend(high) - bend(low);
  const at = (v) => from + ((bend(v) - bend(low)) / span) * (to - from);
  return { at, low, high, ticks: ticks.filter((t) => t >= low - 1e-12 && t <= high + 1e-12) };
}

function niceTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough - 1e-15) || 10 * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

function logTicks(low, high, knee) {
  const ticks = low <= 0 ? [0] : [];
  const first = Math.floor(Math.log10(Math.max(knee, 1e-300)));
  const last = Math.ceil(Math.log10(Math.max(high, knee)));
  const step = Math.max(1, Math.ceil((last - first) / 5));
  for (let e = first; e <= last; e += step) ticks.push(Number(`1e${e}`));
  if (ticks.filter((t) => t >= low && t <= high).length < 3) {
    for (let e = first; e <= last; e += 1) ticks.push(2 * Number(`1e${e}`), 5 * Number(`1e${e}`));
  }
  return [...new Set(ticks)].sort((a, b) => a - b);
}
