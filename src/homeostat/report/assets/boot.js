// A report: one page, all its data inside.

const data = JSON.parse(document.getElementById("data").textContent);
document.title = `${data.title} · homeostat`;
replace(document.body, h("a", { class: "skip", href: "#main" }, "Skip to the report"), bar(),
  h("div", { class: "frame" }, drawContents(data.sections), h("main", { id: "main" }, drawReport(data))),
  [...document.querySelectorAll("script[type='text/plain']")],
  h("footer", {}, data.footer));
document.documentElement.dataset.ready = "yes";
