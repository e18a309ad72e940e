"use strict";
// Sorting: every heading of a table becomes a button. Empty cells stay last either way.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.textContent === "–") return null;
    const sort = cell.dataset.sort ?? cell.textContent;
    return cell.classList.contains("number") ? Number(sort) : sort;
  };
  const sort = (column) => {
    const down = headings[column].getAttribute("aria-sort") === "ascending";
    const sign = down ? -1 : 1;
    const rows = [...table.tBodies[0].rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      if (typeof a === "number" && typeof b === "number") return sign * (a - b);
      return sign * String(a).localeCompare(String(b), "en", { numeric: true });
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const heading of headings) heading.removeAttribute("aria-sort");
    headings[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(column));
    heading.append(button);
  });
}

// Light or dark: the system's setting until the reader chooses.
const theme = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  label();
});
system.addEventListener("change", label);
label();
theme.hidden = false;

// A hint above every table that is wider than its box.
const hint = () => {
  for (const box of document.querySelectorAll(".scroll")) {
    box.previousElementSibling.hidden = box.scrollWidth <= box.clientWidth;
  }
};
addEventListener("resize", hint);
for (const folded of document.querySelectorAll("details")) folded.addEventListener("toggle", hint);
hint();

// On paper nothing can be unfolded.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
