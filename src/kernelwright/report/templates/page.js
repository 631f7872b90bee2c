// Filters the task table, unfolds and folds it, and switches light and dark. The page reads well without it.
"use strict";
(function () {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const tasks = Array.from(document.querySelectorAll(".task"));

  byId("theme").addEventListener("click", function () {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  byId("theme").hidden = false;

  if (!tasks.length) return;
  const find = byId("find"), outcome = byId("outcome"), changed = byId("changed"), unfold = byId("unfold");
  const chosen = (id) => (byId(id) ? byId(id).value : "");
  const visible = () => tasks.filter((task) => !task.hidden);

  function label() {
    unfold.textContent = visible().some((task) => !task.open) ? "Unfold all" : "Fold all";
  }
  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const task of tasks) {
      const text = task.dataset.search;
      task.hidden = !(words.every((word) => text.includes(word)) &&
        (!outcome.value || task.dataset.outcome === outcome.value) &&
        (!chosen("operator") || task.dataset.operators.split(" ").includes(chosen("operator"))) &&
        (!chosen("dtype") || task.dataset.dtype === chosen("dtype")) &&
        (!changed.checked || task.dataset.changed === "yes"));
    }
    const count = visible().length;
    byId("count").textContent = count === tasks.length ? `${count} tasks` : `${count} of ${tasks.length} tasks`;
    byId("none").hidden = count > 0;
    label();
  }
  unfold.addEventListener("click", function () {
    const open = visible().some((task) => !task.open);
    for (const task of visible()) task.open = open;
    label();
  });
  for (const task of tasks) task.addEventListener("toggle", label);
  find.addEventListener("input", filter);
  outcome.addEventListener("change", filter);
  changed.addEventListener("change", filter);
  for (const id of ["operator", "dtype"]) if (byId(id)) byId(id).addEventListener("change", filter);
  byId("filters").hidden = false;
  filter();
})();
