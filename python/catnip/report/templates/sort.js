// Makes the headings of tables buttons that sort the rows: upwards, downwards, and back to the order of the page.
// Numbers come before words, unknown values last. Rows stay in their group, and tables with joined cells as they are.
"use strict";
const NUMBER = /^[≤≥<>≈~]?\s*([-−+]?(?:\d+\.?\d*|\.\d+))(?:e([-+]?\d+)|×10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?/;
const UNKNOWN = /^[-–—…]?$/;
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const words = new Intl.Collator("en", { numeric: true });

// Value of a text that begins with a number, such as "2×10⁻⁸" or "1.23 [1.1, 1.3] s"; NaN for another text.
function numberOf(text) {
  const [, digits, exponent, raised] = NUMBER.exec(text) ?? [];
  const plain = [...raised ?? ""].map(of => of === "⁻" ? "-" : "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(of)).join("");
  return digits === undefined ? NaN : Number(`${digits.replace("−", "-")}e${exponent ?? (plain || 0)}`);
}

// Order of two rows by what is in their cells of a column: [rank, number, words].
function compare([rank, number, text], [otherRank, otherNumber, otherText], sign) {
  return rank - otherRank || sign * (rank === 0 ? number - otherNumber : words.compare(text, otherText));
}

// Ranks of the cells of a column: numbers 0, words 1, unknown values 2; no numbers where most cells are words.
function ordered(rows, column) {
  const texts = rows.map(row => row.cells[column].dataset.v ?? row.cells[column].textContent.trim());
  const known = texts.filter(text => !UNKNOWN.test(text));
  const isNumeric = 2 * known.filter(text => !isNaN(numberOf(text))).length >= known.length;
  return new Map(rows.map((row, at) => {
    const number = isNumeric ? numberOf(texts[at]) : NaN;
    return [row, [UNKNOWN.test(texts[at]) ? 2 : isNaN(number) ? 1 : 0, number, texts[at]]];
  }));
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const isHeading = row => row.cells[0].scope === "rowgroup";
  const groups = [...table.tBodies].map(body => [body, [...body.rows].filter(row => !isHeading(row))]);
  const rows = groups.flatMap(([, own]) => own);
  const isPlain = row => row.cells.length === heads.length && [...row.cells].every(cell => cell.rowSpan === 1);
  const isApart = [...table.tBodies].every(body => [...body.rows].findLastIndex(isHeading) < 1);
  if (table.tHead.rows.length > 1 || !isApart || !rows.every(isPlain)) return;
  if (groups.every(([, own]) => own.length < 2)) return;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const next = NEXT[head.getAttribute("aria-sort")];
      heads.forEach(other => other.setAttribute("aria-sort", other === head ? next : "none"));
      const of = ordered(rows, column);
      const sign = next === "ascending" ? 1 : -1;
      for (const [body, own] of groups) {
        const sorted = [...own].sort((a, b) => compare(of.get(a), of.get(b), sign));
        body.append(...(next === "none" ? own : sorted));
      }
    });
  });
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
