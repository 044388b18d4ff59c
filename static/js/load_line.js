// The load line on a chart against concurrency: a marked vertical line, and its interval as a band.
import { clear, colour, numberText } from "./charts.js";

export function loadLineAnnotations(loadLine) {
  if (!loadLine) return {};
  const hue = colour("chart-load-line");
  const marks = {
    "load-line": {
      type: "line",
      xMin: loadLine.value,
      xMax: loadLine.value,
      borderColor: hue,
      borderWidth: 2,
      label: { display: true, content: `load line ${numberText(loadLine.value)}`, position: "end", backgroundColor: hue, color: colour("surface"), font: { size: 11, weight: 600 }, padding: { x: 6, y: 3 }, borderRadius: 4 },
    },
  };
  if (loadLine.low !== null && loadLine.high !== null && loadLine.high > loadLine.low) {
    marks["load-line-range"] = { type: "box", xMin: loadLine.low, xMax: loadLine.high, backgroundColor: clear(hue, 0.1), borderWidth: 0, drawTime: "beforeDatasetsDraw" };
  }
  return marks;
}
