// Readable names for technical ones. Hovering shows the technical name and what it means; so does a click, for
// readers without a pointer. TERMS ([readable name, explanation] by technical name) stands before this part.

function named(name) {
  if (TERMS[name]) return TERMS[name][0];
  const arm = /^(.+) @ ([\d.]+)$/.exec(name);  // a defence at a severity, as the joint experiment calls it
  return arm ? `${named(arm[1])} at ${arm[2]}` : String(name ?? "–");
}

// `text` is shown in place of the readable name; `told` explains names that only this page knows.
function term(name, text, told) {
  const words = text ?? named(name);
  const meaning = told ?? TERMS[name]?.[1];
  if (!meaning) return h("span", {}, words);
  const spelled = words === name ? "" : `${name}: `;
  return h("button", {
    type: "button", class: "term", title: spelled + meaning,
    onclick: (event) => { event.stopPropagation(); explain(event.currentTarget, words, name, meaning); },
  }, words);
}

let explained = null;  // the element whose explanation is open

function explain(anchor, words, name, meaning) {
  const open = document.querySelector(".explained");
  open?.remove();
  if (open && explained === anchor) { explained = null; return; }
  explained = anchor;
  const box = h("div", { class: "explained", role: "note" }, h("b", {}, words), words !== name && h("code", {}, name), h("p", {}, meaning));
  const host = anchor.closest("dialog") ?? document.body;
  host.append(box);
  const place = anchor.getBoundingClientRect();
  const frame = host === document.body ? { left: -window.scrollX, top: -window.scrollY } : { left: host.getBoundingClientRect().left, top: host.getBoundingClientRect().top - host.scrollTop };
  box.style.left = `${clamp(place.left, 8, Math.max(8, window.innerWidth - box.offsetWidth - 16)) - frame.left}px`;
  box.style.top = `${place.bottom + 6 - frame.top}px`;
  announce(`${words}: ${meaning}`);
}

document.addEventListener("click", (event) => { if (!event.target.closest?.(".explained")) document.querySelector(".explained")?.remove(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") document.querySelector(".explained")?.remove(); });
