"use strict";
/* Numbers as `telemetry.common.formatting` writes them, and elements made without any parsing of text. */
const telemetry = (() => {
  const NOTHING = "–";
  const TIME_NS = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12 };
  const BYTES = { kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1048576, GiB: 1073741824, B: 1, bytes: 1 };
  const TIME_STEPS = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
  const SIZE_STEPS = [[1, "B"], [2 ** 10, "KiB"], [2 ** 20, "MiB"], [2 ** 30, "GiB"], [2 ** 40, "TiB"]];
  const PLAIN_STEPS = [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]];

  const own = (table, key) => (Object.hasOwn(table, key) ? table[key] : undefined);
  const grouped = (text) => text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const exponential = (value) => value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");

  function threeDigits(value) {
    const magnitude = Number(Math.abs(value).toPrecision(3));
    if (magnitude >= 100) return grouped(value.toFixed(0));
    if (magnitude >= 10) return value.toFixed(1);
    if (magnitude >= 1) return value.toFixed(2);
    return String(Number(value.toPrecision(3))).replace(/e([+-])(\d)$/, "e$10$2");
  }

  function stepped(value, steps) {
    let [factor, unit] = steps[0];
    for (const [step, name] of steps)
      if (Number((Math.abs(value) / step).toPrecision(3)) >= 1) [factor, unit] = [step, name];
    return threeDigits(value / factor) + (unit && " " + unit);
  }

  const known = (value) => typeof value === "number" && Number.isFinite(value);

  function count(value) {
    if (!known(value)) return NOTHING;
    return Number.isInteger(value) ? grouped(String(value)) : scaled(value);
  }

  const numberOf = (value, one, more) => `${count(value)} ${value === 1 ? one : more}`;

  function scaled(value) {
    if (!known(value)) return NOTHING;
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 10000 && Number.isInteger(value)) return grouped(String(value));
    return size < 1e-3 || size >= 1e15 ? exponential(value) : stepped(value, PLAIN_STEPS);
  }

  function durationNs(value) {
    if (!known(value)) return NOTHING;
    if (Math.abs(value) < 120e9) return value ? stepped(value, TIME_STEPS) : "0 s";
    const whole = Math.round(Math.abs(value) / 1e9), minutes = Math.floor(whole / 60), sign = value < 0 ? "-" : "";
    if (minutes < 120) return `${sign}${minutes} min ${whole % 60} s`;
    return `${sign}${grouped(String(Math.floor(minutes / 60)))} h ${minutes % 60} min`;
  }

  function size(value) {
    if (!known(value)) return NOTHING;
    return Math.abs(value) < 1024 && Number.isInteger(value) ? `${value} B` : stepped(value, SIZE_STEPS);
  }

  /** Bytes per second in one of a unit such as MiB/s. */
  const speed = (unit) => (unit.endsWith("/s") ? own(BYTES, unit.slice(0, -2)) : undefined);

  function quantity(value, unit) {
    if (!known(value)) return NOTHING;
    const ns = own(TIME_NS, unit), bytes = own(BYTES, unit);
    if (ns) return durationNs(value * ns);
    if (speed(unit)) return `${size(value * speed(unit))}/s`;
    return bytes ? size(value * bytes) : scaled(value);
  }

  /** "time", "bytes" or "plain", and how many of the smallest unit one is. */
  function nature(unit) {
    const ns = own(TIME_NS, unit), bytes = own(BYTES, unit);
    if (ns) return ["time", ns];
    return bytes || speed(unit) ? ["bytes", bytes || speed(unit)] : ["plain", 1];
  }

  function fill(made, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "on") for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
      else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  /** element("td", {class: "n", on: {click: …}}, "text", child, …): strings become text, never markup. */
  const element = (name, attributes = {}, ...children) =>
    fill(document.createElement(name), attributes, children);
  const svg = (name, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

  return { NOTHING, count, numberOf, scaled, durationNs, quantity, nature, element, svg };
})();

{
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const show = () => {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.title = isDark() ? "Show on a light ground" : "Show on a dark ground";
  };
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  dark.addEventListener("change", show);
  show();
}
