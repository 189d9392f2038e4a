"use strict";
/* Buttons that save a chart as it is shown: as a picture, or its figures as CSV. No network, so a page from a file can, too.

     telemetry.saves(box, title | undefined, rows): `box` has the plot and its legend, `rows()` are [[cell, …], …] with a head. */
Object.assign(telemetry, (() => {
  const { element, svg } = telemetry;
  const SCALE = 2; // pixels of a picture for one of the page
  const EDGE = 16, ROW = 20, SQUARE = 11;
  const DRAWN = ["fill", "fill-opacity", "font-size", "font-weight", "opacity", "stroke", "stroke-dasharray", "stroke-linejoin", "stroke-opacity", "stroke-width", "text-anchor", "visibility"];

  const slug = (text) => text.normalize().replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 80);
  const nameOf = (title) => [document.querySelector("h1")?.textContent ?? "", title].map(slug).filter(Boolean).join("-");

  function keep(blob, name) {
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (rows) => rows.map((row) => row.map(cell).join(",") + "\r\n").join("");

  /** A copy of a plot with its colours and sizes, which are in the style sheet of the page. */
  function standing(plot) {
    const copy = plot.cloneNode(true), [from, to] = [plot, copy].map((one) => [...one.querySelectorAll("*")]);
    from.forEach((one, at) => {
      const style = getComputedStyle(one);
      for (const name of DRAWN) to[at].setAttribute(name, style.getPropertyValue(name));
    });
    for (const one of copy.querySelectorAll(".hair, .chosen")) one.remove();
    return copy;
  }

  /** The chart with its title, legend and ground, as one SVG. */
  function whole(box, title) {
    const plot = box.querySelector(".plot > svg"), page = getComputedStyle(document.body), { width, height } = plot.viewBox.baseVal;
    const soft = getComputedStyle(box.querySelector(".tick") ?? plot).fill;
    const measure = element("canvas").getContext("2d");
    measure.font = `13px ${page.fontFamily}`;
    const wide = (text) => measure.measureText(text).width;
    const told = [".moment", ".facts"].map((name) => box.querySelector(name)?.textContent.trim()).find(Boolean);
    const parts = [], moment = [document.querySelector("h1")?.textContent, told].filter(Boolean).join(" · ");
    parts.push(svg("text", { x: 0, y: 14, fill: page.color, "font-size": 15, "font-weight": 600 }, title));
    let top = ROW;
    if (moment) parts.push(svg("text", { x: 0, y: top + 13, fill: soft, "font-size": 13 }, moment));
    top += moment ? ROW : 0;
    const copy = standing(plot);
    for (const [name, value] of Object.entries({ x: 0, y: top, width, height })) copy.setAttribute(name, value);
    parts.push(copy);
    top += height + 6;
    let left = 0;
    for (const key of box.querySelectorAll(".key")) {
      const text = key.textContent.trim(), needs = SQUARE + 6 + wide(text) + 18;
      if (!text || key.getAttribute("aria-pressed") === "false") continue;
      if (left && left + needs > width) [left, top] = [0, top + ROW];
      const dashed = key.classList.contains("dashed"), [height, down] = dashed ? [3, 7] : [SQUARE, 3];
      parts.push(svg("rect", { x: left, y: top + down, width: SQUARE, height, rx: dashed ? 0 : 3, fill: getComputedStyle(key).caretColor }));
      parts.push(svg("text", { x: left + SQUARE + 6, y: top + 13, fill: page.color, "font-size": 13 }, text));
      left += needs;
    }
    top += left ? ROW : 0;
    const size = { width: width + 2 * EDGE, height: top + 2 * EDGE };
    return svg("svg", { ...size, "font-family": page.fontFamily },
      svg("rect", { ...size, fill: page.backgroundColor }), svg("g", { transform: `translate(${EDGE} ${EDGE})` }, ...parts));
  }

  async function png(picture) {
    const [width, height] = ["width", "height"].map((name) => Number(picture.getAttribute(name)) * SCALE);
    const image = new Image(width, height);
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
    await image.decode();
    const canvas = element("canvas", { width, height });
    canvas.getContext("2d").drawImage(image, 0, 0, width, height);
    return new Promise((done) => canvas.toBlob(done));
  }

  /** A chart without a title of its own is in a figure that has one. */
  function saves(box, own, rows) {
    const title = own ?? box.closest("figure")?.querySelector("figcaption")?.firstChild.textContent ?? "chart";
    const button = (text, what, save) => element("button", { type: "button", title: what, "aria-label": `${what}: ${title}`, on: { click: save } }, text);
    return element("span", { class: "saves" },
      button("PNG", "Save as a picture", async () => keep(await png(whole(box, title)), `${nameOf(title)}.png`)),
      button("CSV", "Save the figures as CSV", () => keep(new Blob([csv(rows())], { type: "text/csv" }), `${nameOf(title)}.csv`)));
  }
  return { saves };
})());
