"use strict";
/* The table of series: rows are made when they are looked at, details when they are asked for. */
{
  const { element, svg, count, numberOf, quantity } = telemetry;
  const CHUNK = 100;
  const place = document.getElementById("series-table");
  const data = place && JSON.parse(document.getElementById("series-data").textContent);

  /** Where percentiles begin among the columns: after name, count and mean. */
  const first = { percentiles: 3 };
  const sorting = { column: -1, down: true };
  let words = [], shown = [], made = 0, body, heads, counter, sentinel;

  const matches = (one) => words.every((word) => one.name.toLowerCase().includes(word));

  function order(a, b) {
    if (sorting.column < 0) return 0;
    const sign = sorting.down ? -1 : 1;
    if (sorting.column === 0) return sign * (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
    const [left, right] = [a.values[sorting.column], b.values[sorting.column]];
    if (left === null || right === null) return (left === null) - (right === null); // nothing comes last
    return sign * (left - right);
  }

  function renew() {
    shown = data.series.filter(matches).sort(order);
    made = 0;
    body.replaceChildren();
    const all = data.series.length;
    counter.textContent = shown.length === all ? `${count(all)} series` : `${count(shown.length)} of ${count(all)} series`;
    heads.forEach((head, index) => {
      const own = index === sorting.column;
      head.setAttribute("aria-sort", own ? (sorting.down ? "descending" : "ascending") : "none");
    });
    more();
  }

  /** The next rows; all of them with `everything`. */
  function more(everything = false) {
    const end = everything ? shown.length : Math.min(made + CHUNK, shown.length);
    body.append(...shown.slice(made, end).map(row));
    made = end;
    sentinel.hidden = made >= shown.length;
    sentinel.textContent = `${count(shown.length - made)} more series`;
  }

  function cell(one, text, index) {
    const bounds = one.bounds[index - first.percentiles];
    if (!bounds) return element("td", {}, text);
    const [, , beyond, within, few] = bounds;
    const title = few ? `Rests on too few values: ${numberOf(beyond, "lies", "lie")} beyond.`
      : `With ${data.confidence} confidence within ${within}; ${numberOf(beyond, "value lies", "values lie")} beyond.`;
    return element("td", { title, class: few ? "few" : undefined }, text, element("small", {}, within));
  }

  /** Long names are broken after their punctuation. */
  const broken = (name) => name.split(/(?<=[{,=/])/).flatMap((part, at) => at ? [element("wbr"), part] : [part]);

  function row(one) {
    const name = element("button", { type: "button", class: "open", "aria-expanded": "false" }, ...broken(one.name));
    const cells = one.cells.map((text, index) => cell(one, text, index + 1));
    const line = element("tr", {}, element("th", { scope: "row" }, name), ...cells,
      data.times.length ? element("td", { class: "spark" }, spark(one)) : null);
    let details = null;
    name.addEventListener("click", () => {
      const open = name.getAttribute("aria-expanded") !== "true";
      name.setAttribute("aria-expanded", String(open));
      if (open && !details) {
        const inside = element("td", { colspan: line.children.length, class: "inside" });
        details = element("tr", { class: "details" }, inside);
        line.after(details);
        detail(inside, one);
      } else if (details) details.hidden = !open;
    });
    return line;
  }

  /** The last percentile but the rarest, over time, as small as a word. */
  function spark(one) {
    const over = one.over;
    if (!over) return "";
    const key = data.keys.includes("99") ? "99" : data.keys[data.keys.length - 1];
    const values = over.percentiles[key] ?? over.max, known = values.filter((value) => value !== null);
    if (known.length < 2) return "";
    const low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
    const points = values.map((value, at) => value === null ? null
      : [(at / (values.length - 1)) * 96 + 2, 20 - ((value - low) / (high - low || 1)) * 16]);
    const step = (point, at) => point === null ? "" : `${points[at - 1] ? "L" : "M"}${point[0].toFixed(1)},${point[1].toFixed(1)}`;
    const title = `p${key} from ${quantity(low, one.unit)} to ${quantity(high, one.unit)}`;
    return svg("svg", { viewBox: "0 0 100 24", width: 100, height: 24, role: "img", "aria-label": title },
      svg("title", {}, title),
      svg("path", { class: "line c0", d: points.map(step).join("") }));
  }

  function detail(inside, one) {
    const box = (title, draw, wide = false) => {
      const part = element("div", { class: wide ? "wide" : undefined }, element("h3", {}, title));
      inside.firstChild.append(part);
      draw(part);
    };
    inside.append(element("div", { class: "detail" }));
    if (one.facts.length) inside.firstChild.append(element("p", { class: "wide soft" }, one.facts.join(" · ")));
    const values = (index) => one.values[first.percentiles + index];
    const grid = data.keys.map((key, index) => [Number(key) / 100, values(index)])
      .filter(([fraction, value]) => fraction > 0 && fraction < 1 && value !== null);
    const [least, most] = [one.min, one.values[first.percentiles + data.keys.length]];
    const points = least === null || most === null ? grid : [[0, least], ...grid, [1, most]];
    const bounds = data.keys.flatMap((key, index) => {
      const own = one.bounds[index], fraction = Number(key) / 100;
      return own && !own[4] && fraction < 1 && own[0] !== null && own[1] !== null ? [[fraction, own[0], own[1]]] : [];
    });
    const lines = points.length ? [{ name: "values", points, bounds, count: one.values[1] }] : [];
    const shaded = bounds.length ? `, shaded: ${data.confidence} bounds` : "";
    box(`Percentiles${shaded}`, (host) => telemetry.curves(host, { unit: one.unit, lines }));
    box("Distribution, values to a quarter of a doubling", (host) => telemetry.bars(host, { unit: one.unit, cell_unit: one.cell_unit, cells: one.histogram }));
    if (!one.over) return;
    const [start, end] = data.times[one.over.times];
    const over = Object.entries(one.over.percentiles).map(([key, line]) => ({ name: `p${key}`, values: line }));
    over.push({ name: "max", values: one.over.max });
    const step = telemetry.durationNs(data.step_s * 1e9);
    box(`Over time, in steps of ${step}`, (host) =>
      telemetry.overTime(host, { unit: one.unit, start, end, count: one.over.count, lines: over }), true);
  }

  function build() {
    counter = element("span", { class: "soft", role: "status" });
    const filter = element("input", { type: "search", placeholder: "Filter by name or label", "aria-label": "Filter series" });
    filter.addEventListener("input", () => {
      words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      renew();
    });
    heads = data.columns.map((title, index) => {
      const head = element("th", { scope: "col", "aria-sort": "none" });
      head.append(element("button", { type: "button", class: "sort", title: "Sort by this", on: { click: () => {
        sorting.down = sorting.column === index ? !sorting.down : index > 0;
        sorting.column = index;
        renew();
      } } }, title));
      return head;
    });
    const over = data.times.length ? element("th", { scope: "col" }, "over time") : null;
    body = element("tbody");
    sentinel = element("button", { type: "button", class: "more", on: { click: () => more() } });
    place.append(
      element("div", { class: "tools" }, filter, counter),
      element("div", { class: "scroll" }, element("table", { class: "series" }, element("thead", {}, element("tr", {}, ...heads, over)), body)),
      sentinel);
    renew();
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && !sentinel.hidden && more()).observe(sentinel);
    addEventListener("beforeprint", () => more(true));
    if (data.series.length === 1) body.querySelector("button.open").click();
  }

  if (data) build();
}
