// Tables as CSV that a spreadsheet opens safely: text can never become a formula, numbers stay numbers, no data is empty.
const FORMULA_STARTS = ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"];

export function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value === "number") return String(value);
  const safe = FORMULA_STARTS.some((start) => value.startsWith(start)) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvText(rows) {
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

// A cell says its exact value in data-value; else what is written in it.
function cellValue(cell) {
  const given = cell.dataset.value;
  if (given !== undefined) return given === "" ? null : Number.isFinite(Number(given)) ? Number(given) : given;
  const text = cell.innerText.trim().replace(/\s*\n\s*/g, "; ");
  if (text === "—" || text === "") return null;
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

export function tableRows(table) {
  return [...table.rows].map((row) => [...row.cells].map(cellValue));
}
