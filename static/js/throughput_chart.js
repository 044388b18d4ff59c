// Throughput against concurrency, with the fitted curve where there is one.
import { baseOptions, colour, makeChart, numberText } from "./charts.js";
import { drawLegend } from "./latency_chart.js";
import { loadLineAnnotations } from "./load_line.js";

const MODEL_NAMES = { usl: "USL fit", linear: "linear fit", capped: "fit with a cap" };

export function throughputChart(canvas, data, loadLine, view) {
  const hue = colour("chart-throughput");
  const options = baseOptions("concurrent users");
  options.scales.x.type = view.x;
  options.plugins.annotation.annotations = loadLineAnnotations(loadLine);
  options.plugins.tooltip.filter = (item) => Boolean(item.raw.point);
  options.plugins.tooltip.callbacks = {
    title: (items) => (items.length ? `${items[0].raw.point.x} users, ${items[0].raw.point.kind}` : ""),
    label: (item) => [` ${numberText(item.raw.y)} requests/s`, ` ${numberText(item.raw.point.output_tokens_per_s)} output tokens/s`],
  };
  const place = (point) => ({ x: point.x, y: point.y, point });
  const counted = data.points.filter((point) => point.valid);
  const left = data.points.filter((point) => !point.valid);
  const datasets = [
    { data: counted.map(place), borderColor: hue, backgroundColor: hue, pointRadius: 4.5, pointHoverRadius: 6, showLine: !data.fit.length, borderWidth: 2 },
    { data: left.map(place), borderColor: hue, backgroundColor: colour("surface"), borderWidth: 1.5, pointRadius: 4.5 },
  ];
  if (data.fit.length) {
    datasets.push({ data: data.fit, showLine: true, borderColor: colour("chart-fit"), borderWidth: 1.5, borderDash: [5, 4], pointRadius: 0, pointHitRadius: 0 });
  }
  const entries = [["●", "measured", "chart-throughput"]];
  if (data.fit.length) entries.push(["╌", MODEL_NAMES[data.model] ?? "fit", "chart-fit"]);
  if (loadLine) entries.push(["┃", "load line", "chart-load-line"]);
  if (left.length) entries.push(["○", "invalid stage", "ink-soft"]);
  drawLegend(canvas, entries);
  return makeChart(canvas, { type: "scatter", data: { datasets }, options });
}
