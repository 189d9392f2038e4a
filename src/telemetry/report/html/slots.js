"use strict";
/* Requests as bars in their slots, on the time axis of the other charts.

     telemetry.slots(host, {title, help?, axis: [s, s], phases: [[key, name]], slots: [n], begin: [s], issued: [s], first: [s | null],
                            end: [s], reasons: [text]}, crosshair) */
telemetry.slots = (host, data, cross) => {
  const { element, svg, count, numberOf, quantity, seconds, most, timeAxis, ground, responsive, within, follow, hair, head } = telemetry;
  const ROW = 14, LEAST_ROW = 3, TALLEST = 520;
  const TONES = { queue: "c7", first: "c0", rest: "c2", whole: "c2", failed: "bad-key" };
  const number = most(data.slots) + 1;
  let again = () => {}, move = () => {}, area;
  cross.draws.add(() => again());

  /** [key of a phase, start, end] of a request. A failed one is one piece, so that it is seen. */
  function pieces(at) {
    const [begin, issued, first, end] = [data.begin[at], data.issued[at], data.first[at], data.end[at]];
    if (data.reasons[at]) return [["failed", begin, end]];
    const queue = issued > begin ? [["queue", begin, issued]] : [];
    return first === null ? [...queue, ["whole", issued, end]] : [...queue, ["first", issued, first], ["rest", first, end]];
  }
  const names = Object.fromEntries(data.phases), moment = head(host, data, () => [["slot", "begin_s", "issued_s", "first_s", "end_s", "failure"],
    ...data.slots.flatMap((slot, at) => (within(cross.range, data.begin[at], data.end[at])
      ? [[slot + 1, data.begin[at], data.issued[at], data.first[at], data.end[at], data.reasons[at]]] : []))]);
  const readout = element("div", { class: "readout" });
  const hint = "Move over a bar to read a request.";

  function told(at) {
    const parts = pieces(at).flatMap(([key, from, to]) => [element("span", { class: `key ${TONES[key]}` }, `${names[key]} `, element("b", {}, quantity(to - from, "s"))), " "]);
    return [element("strong", {}, `${seconds(data.begin[at])} in slot ${count(data.slots[at] + 1)}`), " \u2002", ...parts, data.reasons[at]];
  }

  cross.charts.add((at) => {
    move(at === null ? null : area.across(at));
    if (at === null) return readout.replaceChildren(hint);
    const now = data.slots.reduce((sum, _, place) => sum + (data.issued[place] <= at && at < data.end[place]), 0);
    readout.replaceChildren(element("strong", {}, seconds(at)), ` \u2002${numberOf(now, "request", "requests")} in flight`);
  });
  again = responsive(host, (width) => {
    const row = Math.max(LEAST_ROW, Math.min(ROW, Math.floor(TALLEST / number)));
    const step = Math.max(1, Math.ceil(18 / row)), ticks = Array.from({ length: number }, (_, at) => at + 0.5).filter((_, at) => at % step === 0);
    const y = { place: (at) => 1 - at / number, ticks, text: (at) => count(at + 0.5) };
    area = ground(width, number * row + 50, timeAxis(...(cross.range ?? data.axis), width < 480 ? 4 : 12), y, data.title, { left: 60, top: 24, bottom: 26, cut: Boolean(cross.range), titles: ["slot"] });
    data.slots.forEach((slot, at) => {
      if (!within(cross.range, data.begin[at], data.end[at])) return;
      for (const [key, from, to] of pieces(at)) {
        const x = area.across(from), wide = Math.max(area.across(to) - x, 0.6);
        area.inside.append(svg("rect", { class: `bar ${TONES[key]}`, x: x.toFixed(1), y: (area.up(slot) + 0.5).toFixed(1), width: wide.toFixed(1), height: row - 1 }));
      }
    });
    follow(area, data.begin, cross, data.title);
    move = hair(area);
    area.plot.addEventListener("pointermove", (event) => {
      const box = area.plot.getBoundingClientRect(), scale = width / box.width;
      const time = area.at((event.clientX - box.left) * scale), slot = Math.floor(((event.clientY - box.top) * scale - area.top) / row);
      const place = data.slots.findIndex((one, at) => one === slot && data.begin[at] <= time && time < data.end[at]);
      if (place >= 0) readout.replaceChildren(...told(place));
    });
    return area.plot;
  });
  const used = new Set(data.slots.flatMap((_, at) => pieces(at).map(([key]) => key)));
  host.append(element("div", { class: "legend" }, ...data.phases.filter(([key]) => used.has(key)).map(([key, name]) => element("span", { class: `key ${TONES[key]}` }, name))), readout);
  readout.append(hint);
};
