// Tables of inputs that a person lengthens: add a copy of the template, remove a row. The server reads parallel lists.
for (const table of document.querySelectorAll("[data-rows]")) {
  const list = table.querySelector("[data-rows-list]");
  const template = table.querySelector("template");
  const changed = () => table.dispatchEvent(new CustomEvent("rows-changed", { bubbles: true }));

  table.querySelector("[data-rows-add]").addEventListener("click", () => {
    list.append(template.content.cloneNode(true));
    list.lastElementChild.querySelector("input, select").focus();
    changed();
  });
  list.addEventListener("click", (event) => {
    const button = event.target.closest("[data-row-remove]");
    if (!button) return;
    const row = button.closest("[data-row]");
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    (next?.querySelector("input, select") ?? table.querySelector("[data-rows-add]")).focus();
    changed();
  });
}
