"use strict";
/* Behaviour of every page: explanations behind a `?`, long tables whose first rows are shown, p99 beside the names on a
   narrow screen, parts that scripts fill, and details, which are open in print. */
Object.assign(telemetry, (() => {
  const { element } = telemetry;
  const EDGE = 12; // pixels between an explanation and the edge of the window

  /** A `?` that shows a text, as `telemetry.report.html.help` makes it; nothing without a text. */
  const help = (text) => text ? element("span", { class: "help" },
    element("button", { type: "button", "aria-label": text }, "?"), element("span", { "aria-hidden": "true" }, text)) : null;

  /** Keeps an explanation inside the window. */
  function inside(event) {
    const box = event.target.closest?.(".help"), text = box?.lastElementChild;
    if (!text) return;
    text.style.marginLeft = "0";
    const over = text.getBoundingClientRect().right - (document.documentElement.clientWidth - EDGE);
    if (over > 0) text.style.marginLeft = `${-over}px`;
  }
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, inside);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest?.(".help")) event.target.blur();
  });

  for (const table of document.querySelectorAll("table[data-first]")) {
    const rest = [...table.tBodies[0].rows].slice(Number(table.dataset.first));
    if (rest.length < 2) continue;
    const more = element("button", { type: "button", class: "more" }, `Show all ${telemetry.count(rest.length + Number(table.dataset.first))}`);
    const show = (all) => {
      for (const row of rest) row.hidden = !all;
      more.hidden = all;
    };
    more.addEventListener("click", () => show(true));
    addEventListener("beforeprint", () => show(true));
    table.parentNode.after(more);
    show(false);
  }

  const narrow = matchMedia("(max-width: 640px)");
  /** Puts the column of p99 behind the names on a narrow screen, and back on a wide one. Rows may be new. */
  function arrange(table) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    table.dataset.p99 ??= heads.findIndex((head) => head.textContent === "p99");
    const home = Number(table.dataset.p99);
    if (home < 2) return;
    for (const row of table.rows) {
      if (row.cells.length <= home || row.hasAttribute("data-narrow") === narrow.matches) continue;
      if (narrow.matches) row.cells[1].before(row.cells[home]);
      else row.cells[home].after(row.cells[1]);
      row.toggleAttribute("data-narrow");
    }
  }
  const arrangeAll = () => [...document.querySelectorAll("table")].forEach(arrange);
  arrangeAll();
  narrow.addEventListener("change", arrangeAll);

  for (const part of document.querySelectorAll("[data-scripted]")) part.hidden = false;

  const details = [...document.querySelectorAll("details")];
  let closed = details;
  const close = () => closed.forEach((one) => { one.open = false; });
  close();
  addEventListener("beforeprint", () => {
    closed = details.filter((one) => !one.open);
    closed.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", close);
  return { help, arrange };
})());
