// What every page does: local times, confirmations, forms that are sent once, and menus that close.
import { localiseTimes } from "./time.js";

localiseTimes(document);
document.addEventListener("htmx:afterSwap", (event) => localiseTimes(event.target));
document.addEventListener("htmx:beforeSwap", (event) => {
  // A login that ended while the page was open: htmx would put the login page into a corner of this one.
  if (event.detail.xhr.responseURL && new URL(event.detail.xhr.responseURL).pathname.startsWith("/login/")) {
    event.detail.shouldSwap = false;
    location.reload();
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = form.dataset.confirm;
  if (question && !confirm(question)) {
    event.preventDefault();
    return;
  }
  if ("once" in form.dataset) {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  }
});
// One place in the history is one launch: after "back", the page may be a new copy with a new token.
for (const token of document.querySelectorAll("form[data-once] input[name=token]")) {
  if (history.state?.token) token.value = history.state.token;
  else history.replaceState({ ...history.state, token: token.value }, "");
}
// Back from the next page: the form may be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

document.querySelector("[data-focus]")?.focus();
