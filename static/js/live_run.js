// The live page: follows a run, shows where it is, and turns into the results when the run is over.
import { numberText } from "./charts.js";
import { followRun } from "./run_feed.js";
import { clockTime, durationWords } from "./time.js";
import { makeTimeline } from "./timeline.js";

const bar = document.querySelector("[data-live]");
const strip = document.querySelector("[data-strip]");
const eventList = document.querySelector("[data-events]");
const timeline = makeTimeline(document.querySelector("[data-timeline]"));
const SHAPES = { queued: "○", running: "▶", analysing: "◔" };

function show(name, text) {
  const element = bar.querySelector(`[data-show="${name}"]`);
  if (element && element.textContent !== text) element.textContent = text;
}

function showProgress({ state, state_name: stateName, progress, cancel_requested: isStopping }) {
  const phase = ["warmup", "measure", "drain", "preflight"].includes(progress.phase) ? ` · ${progress.phase}` : "";
  show("state", isStopping ? "▶ Stopping" : `${SHAPES[state] ?? ""} ${stateName}${phase}`);
  show("stage", `${progress.stage ?? "—"} / ${progress.stages ?? "—"}`);
  show("concurrency", numberText(progress.concurrency));
  show("in_flight", numberText(progress.in_flight));
  show("tokens", numberText(progress.output_tokens_per_s));
  show("failed", numberText(progress.requests_failed));
  show("eta", durationWords(progress.eta_s));
  const waiting = progress.waiting ?? "";
  show("waiting", waiting.charAt(0).toUpperCase() + waiting.slice(1));
  bar.querySelector('[data-show="waiting"]').hidden = !waiting;
  const cancel = bar.querySelector("[data-cancel]");
  if (cancel && isStopping) cancel.disabled = true;
}

function stripItem(stage, progress) {
  const item = document.createElement("li");
  item.className = `strip__item strip__item--${stage.state}`;
  const part = (name, text) => {
    const span = document.createElement("span");
    span.className = `strip__${name}`;
    span.textContent = text;
    return span;
  };
  const isJudged = stage.kind === "ladder" || stage.kind === "refine";
  // An invalid stage may still prove that the limit is passed.
  const invalid = stage.within === "beyond" ? "invalid, yet beyond" : "invalid";
  const verdict = stage.valid === false ? invalid : isJudged ? stage.within : null;
  item.append(part("kind", stage.kind), part("users", String(stage.concurrency)), part("state", verdict ? `${stage.state}, ${verdict}` : stage.state));
  if (stage.state === "running") {
    item.setAttribute("aria-current", "step");
    const done = document.createElement("progress");
    done.max = stage.length_s;
    done.value = Math.min(progress.stage_elapsed_s ?? 0, stage.length_s);
    done.setAttribute("aria-label", `Stage at ${stage.concurrency}`);
    item.append(done);
  }
  return item;
}

let stripShown = "";
function showStrip({ stages, progress }) {
  const text = JSON.stringify(stages);
  if (text !== stripShown) {
    strip.replaceChildren(...stages.map((stage) => stripItem(stage, progress)));
    // Scrolls the strip alone, never the page.
    const current = strip.querySelector(".strip__item--running");
    if (current) strip.scrollLeft = current.offsetLeft - strip.offsetLeft - strip.clientWidth / 3;
  }
  stripShown = text;
  const bar = strip.querySelector("progress");
  if (bar) bar.value = Math.min(progress.stage_elapsed_s ?? 0, bar.max);
}

function addEvents(events) {
  for (const event of events) {
    const item = document.createElement("li");
    item.className = "events__item";
    const time = document.createElement("time");
    time.className = "events__time";
    time.dateTime = event.at;
    time.title = event.at;
    time.textContent = clockTime(event.at);
    const message = document.createElement("span");
    message.textContent = event.message;
    item.append(time, message);
    eventList.prepend(item);
  }
}

followRun(bar.dataset.live, {
  onAnswer(answer) {
    showProgress(answer);
    showStrip(answer);
    addEvents(answer.events);
    timeline.add(answer);
  },
  onEnd: () => location.reload(),
  onLost() { bar.querySelector('[data-show="lost"]').hidden = false; },
  onFound() { bar.querySelector('[data-show="lost"]').hidden = true; },
});
