// Latency against concurrency: percentiles, the interval of what is judged, the limits, and the load line.
import { baseOptions, clear, colour, makeChart, numberText } from "./charts.js";
import { loadLineAnnotations } from "./load_line.js";

const SHAPES = { p50: "circle", p90: "triangle", p99: "rect" };
const GLYPHS = { p50: "●", p90: "▲", p99: "■" };
const DASHES = { p50: [], p90: [6, 4], p99: [2, 3] };
const SHADES = { p50: "", p90: "-2", p99: "-3" };

// `metric` is ttft_ms or tpot_ms; `view` says which percentiles are shown and the axes.
export function latencyChart(canvas, metric, data, loadLine, view) {
  const family = metric === "ttft_ms" ? "chart-ttft" : "chart-tpot";
  const options = baseOptions("concurrent users");
  options.scales.x.type = view.x;
  options.scales.y.type = view.y;
  options.plugins.tooltip.filter = (item) => !item.dataset.isBand;
  options.plugins.tooltip.callbacks = { title: pointTitle, label: pointLabel };
  options.plugins.annotation.annotations = {
    ...loadLineAnnotations(loadLine),
    ...limitAnnotations(data.limits.filter((limit) => view.percentiles.includes(limit.stat) || limit.stat === data.judged)),
  };
  const datasets = [];
  for (const percentile of view.percentiles) {
    const hue = colour(family + SHADES[percentile]);
    datasets.push(line(data.points, percentile, hue), hollow(data.points, percentile, hue));
  }
  if (data.judged && view.percentiles.includes(data.judged)) datasets.push(...band(data.points, colour(family)));
  const chart = makeChart(canvas, { type: "scatter", data: { datasets }, options });
  showLegend(canvas, view.percentiles, family, data, loadLine);
  return chart;
}

const counts = (point) => point.valid && point.kind !== "closing";
const at = (points, name) => points.map((point) => ({ x: point.x, y: point[name], point }));

function line(points, percentile, hue) {
  return {
    label: percentile,
    data: at(points.filter(counts), percentile),
    showLine: true,
    spanGaps: false,
    borderColor: hue,
    backgroundColor: hue,
    borderWidth: 2,
    borderDash: DASHES[percentile],
    pointStyle: SHAPES[percentile],
    pointRadius: 4,
    pointHoverRadius: 6,
  };
}

function hollow(points, percentile, hue) {
  return {
    label: percentile,
    data: at(points.filter((point) => !counts(point)), percentile),
    borderColor: hue,
    backgroundColor: colour("surface"),
    borderWidth: 1.5,
    pointStyle: SHAPES[percentile],
    pointRadius: 4.5,
  };
}

function band(points, hue) {
  const judged = new Map(points.filter((point) => counts(point) && point.low !== null && point.high !== null).map((point) => [point.x, point]));
  const edge = (name, fill) => ({
    isBand: true,
    data: at([...judged.values()], name),
    showLine: true,
    borderWidth: 0,
    pointRadius: 0,
    pointHitRadius: 0,
    backgroundColor: clear(hue, 0.16),
    fill,
  });
  return [edge("high", "+1"), edge("low", false)];
}

function limitAnnotations(limits) {
  return Object.fromEntries(
    limits.map((limit, n) => [
      `limit-${n}`,
      {
        type: "line",
        yMin: limit.value,
        yMax: limit.value,
        borderColor: colour("chart-limit"),
        borderWidth: 1.5,
        borderDash: [8, 4],
        label: { display: true, content: `${limit.stat} limit ${numberText(limit.value)} ms`, position: "start", yAdjust: -11, backgroundColor: clear(colour("surface"), 0.85), color: colour("chart-limit"), font: { size: 11, weight: 600 }, padding: 3 },
      },
    ]),
  );
}

function pointTitle(items) {
  const point = items[0]?.raw.point;
  return point ? `${point.x} users, ${point.kind}${point.valid ? "" : " (invalid)"}` : "";
}

function pointLabel(item) {
  const { count } = item.raw.point;
  return ` ${item.dataset.label}: ${numberText(item.raw.y)} ms${count === null ? "" : `, ${count} requests`}`;
}

function showLegend(canvas, percentiles, family, data, loadLine) {
  const entries = percentiles.map((name) => [GLYPHS[name], name, family + SHADES[name]]);
  if (data.judged && percentiles.includes(data.judged)) entries.push(["▒", "95% interval", family]);
  for (const limit of data.limits) entries.push(["╌", limit.text, "chart-limit"]);
  if (loadLine) entries.push(["┃", "load line", "chart-load-line"]);
  if (data.points.some((point) => !counts(point))) entries.push(["○", "not counted: invalid or closing baseline", "ink-soft"]);
  drawLegend(canvas, entries);
}

// `entries`: [glyph, text, token of the colour].
export function drawLegend(canvas, entries) {
  const items = entries.map(([glyph, text, token]) => {
    const item = document.createElement("li");
    const mark = document.createElement("span");
    mark.textContent = glyph;
    mark.style.color = `var(--${token})`;
    mark.setAttribute("aria-hidden", "true");
    item.append(mark, text);
    return item;
  });
  canvas.closest(".chart").querySelector("[data-legend]").replaceChildren(...items);
}
