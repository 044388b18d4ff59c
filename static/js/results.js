// The results page: charts against concurrency with their toggles, whose state is in the address.
import { bindChartTools, bindTableButtons } from "./chart_export.js";
import { onThemeChange } from "./charts.js";
import { latencyChart } from "./latency_chart.js";
import { followRun } from "./run_feed.js";
import { throughputChart } from "./throughput_chart.js";
import { makeTimeline } from "./timeline.js";
import { readState, writeState } from "./url_state.js";

const DEFAULTS = { p: "p50,p90,p99", x: "linear", y: "linear" };
const AXES = ["linear", "logarithmic"];

const dataElement = document.getElementById("chart-data");
if (dataElement) showResults(JSON.parse(dataElement.textContent));
bindTableButtons();

const timeline = makeTimeline(document.querySelector("[data-timeline]"));
followRun(document.querySelector("[data-live]").dataset.live, { onAnswer: (answer) => timeline.add(answer), onEnd() {} });

function showResults(data) {
  const root = document.querySelector("[data-results]");
  const canvases = [...root.querySelectorAll("canvas[data-chart]")];
  const percentileBoxes = [...root.querySelectorAll("[data-percentile]")];
  const axisButtons = [...root.querySelectorAll("[data-axis]")];
  let charts = [];

  const state = readState(DEFAULTS);
  percentileBoxes.forEach((box) => { box.checked = state.p.split(",").includes(box.dataset.percentile); });
  axisButtons.forEach((button) => { button.checked = (AXES.includes(state[button.dataset.axis]) ? state[button.dataset.axis] : "linear") === button.value; });

  const chosen = (axis) => axisButtons.find((button) => button.dataset.axis === axis && button.checked).value;
  const view = () => ({ percentiles: percentileBoxes.filter((box) => box.checked).map((box) => box.dataset.percentile), x: chosen("x"), y: chosen("y") });

  const draw = () => {
    charts.forEach((chart) => chart.destroy());
    charts = canvases.map((canvas) =>
      canvas.dataset.chart === "throughput"
        ? throughputChart(canvas, data.throughput, data.load_line, view())
        : latencyChart(canvas, canvas.dataset.chart, data.latency[canvas.dataset.chart], data.load_line, view()),
    );
  };
  const changed = () => {
    const now = view();
    writeState({ p: now.percentiles.join(","), x: now.x, y: now.y }, DEFAULTS);
    draw();
  };
  [...percentileBoxes, ...axisButtons].forEach((input) => input.addEventListener("change", changed));
  canvases.forEach((canvas) => bindChartTools(canvas, () => chartRows(data, canvas.dataset.chart)));
  onThemeChange(draw);
  draw();
}

function chartRows(data, name) {
  if (name === "throughput") {
    const columns = ["x", "kind", "valid", "y", "requests_per_s"];
    const header = ["concurrency", "stage", "valid", "output_tokens_per_s", "requests_per_s"];
    return [header, ...data.throughput.points.map((point) => columns.map((column) => text(point[column])))];
  }
  const { judged, points } = data.latency[name];
  const columns = ["x", "kind", "valid", "within", "count", "p50", "p90", "p99", "low", "high"];
  const header = ["concurrency", "stage", "valid", "within", "requests", `${name}_p50`, `${name}_p90`, `${name}_p99`, `${name}_${judged}_low`, `${name}_${judged}_high`];
  return [header, ...points.map((point) => columns.map((column) => text(point[column])))];
}

const text = (value) => (typeof value === "boolean" ? String(value) : value);
