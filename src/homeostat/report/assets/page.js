// The page around the blocks: contents, theme, sections.

const THEMES = ["auto", "light", "dark"];

function themeButton() {
  let theme = "auto";
  try { theme = localStorage.getItem("homeostat-theme") || "auto"; } catch { /* a page without storage */ }
  const button = h("button", { type: "button", class: "theme" });
  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    button.setAttribute("aria-label", `Colour theme: ${theme}. Press to change.`);
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try { localStorage.setItem("homeostat-theme", theme); } catch { /* not kept */ }
    apply();
  });
  apply();
  return button;
}

function drawSection(section) {
  return h("section", { id: section.id, "aria-labelledby": `${section.id}-title` },
    h("h2", { id: `${section.id}-title` }, section.title),
    section.lead && h("p", { class: "lead" }, section.lead),
    section.blocks.map(drawBlock));
}

function drawReport(data) {
  return [
    h("header", { class: "top" },
      h("p", { class: "eyebrow" }, data.eyebrow), h("h1", {}, data.title),
      data.error && h("div", { class: "problems", role: "alert" }, h("b", {}, "This run failed: "), data.error),
      data.verdicts.map((v) => h("p", { class: "verdict" }, v)),
      data.problems.length > 0 && h("div", { class: "problems", role: "alert" }, h("b", {}, "Files that could not be read:"), h("ul", {}, data.problems.map((p) => h("li", {}, p))))),
    data.sections.map(drawSection),
  ];
}

function drawContents(sections) {
  return h("nav", { class: "contents", "aria-label": "Contents" }, h("ol", {}, sections.map((s) => h("li", {}, h("a", { href: `#${s.id}` }, s.title)))));
}

function bar(...items) {
  return h("div", { class: "bar-top" }, h("span", { class: "brand" }, "homeostat"), items, themeButton());
}
