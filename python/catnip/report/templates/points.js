// A button in a head sorts the points by its column, and again in the other direction; unknown values stay last.
for (const table of document.querySelectorAll("table.points")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    heads.forEach(other => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const known = row => row.cells[column].dataset.v !== "";
    const value = row => Number(row.cells[column].dataset.v);
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => known(b) - known(a) || sign * (value(a) - value(b))));
  }));
}
