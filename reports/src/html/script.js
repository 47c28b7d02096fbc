"use strict";
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const raw = row.cells[column].dataset.v;
    return raw === undefined ? row.cells[column].textContent : raw === "" ? -Infinity : Number(raw);
  };
  // Not buttons proper: Chromium repeats no table head in print that holds one.
  for (const button of table.querySelectorAll("thead span")) {
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      button.click();
    });
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const sorted = head.getAttribute("aria-sort");
      const words = body.rows.length > 0 && body.rows[0].cells[head.cellIndex].dataset.v === undefined;
      const rising = sorted === null ? words : sorted === "descending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, head.cellIndex), value(b, head.cellIndex)];
        return (x < y ? -1 : x > y ? 1 : 0) * (rising ? 1 : -1);
      });
      body.append(...rows);
    });
  }
}
for (const input of document.querySelectorAll("input[data-filter]")) {
  const body = document.getElementById(input.dataset.filter).tBodies[0];
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
  });
}
