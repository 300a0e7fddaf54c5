// Check of a report: its runs are simulated again in the reader's browser, and compared with what it says. Opens the explorer, too.

import { Client } from "./client";
import type { Head } from "./message";
import { decoded, unpacked } from "./stored";
import type { Mean, Summary } from "./study";

/** What a report holds of its runs. */
interface Held {
  path: string;
  text: string;
  set: [string, string][];
  /** Contents of the files, in base64. */
  files: Record<string, string>;
  first: number;
  seeds: number;
  variants: Record<string, { fingerprint: string; groups: Record<string, Record<string, Mean>> }>;
}

/** Largest relative difference of a number that counts as the same: a quantile of Student's t may differ in its last digits. */
const SAME = 1e-9;
/** Number of seeds between two signs of progress. */
const BATCH = 5;

const element = (id: string): HTMLElement => document.getElementById(id)!;

async function contents(id: string): Promise<string> {
  return new TextDecoder().decode(await unpacked(element(id).textContent!));
}

/** Returns the engine of the explorer that the report holds: the script of its worker and the module. */
async function engine(): Promise<{ script: string; module: WebAssembly.Module }> {
  const page = new DOMParser().parseFromString(await contents("explorer"), "text/html");
  const text = (id: string): string => page.getElementById(id)!.textContent!;
  return { script: text("worker"), module: await WebAssembly.compile(await unpacked(text("module"))) };
}

async function check(): Promise<void> {
  const held = JSON.parse(await contents("runs")) as Held;
  const { script, module } = await engine();
  const client = new Client(script, module);
  const files = Object.fromEntries(Object.entries(held.files).map(([name, text]) => [name, decoded(text)]));
  const { path, text, set, first, seeds } = held;
  await client.open("report", { path, text, files, set: Object.fromEntries(set) }, "");
  const differences: string[] = [];
  let numbers = 0;
  const names = Object.keys(held.variants);
  for (const [at, variant] of names.entries()) {
    const expected = held.variants[variant]!;
    const { head } = await client.ask({ ask: "fingerprint", variant, seed: first, until_s: null });
    if (head["fingerprint"] !== expected.fingerprint) {
      differences.push(`${variant}: fingerprint of seed ${first}: ${String(head["fingerprint"])}, in the report ${expected.fingerprint}`);
    }
    let summary: Head = {};
    for (let until = Math.min(BATCH, seeds); ; until = Math.min(seeds, until + BATCH)) {
      ({ head: summary } = await client.ask({ ask: "study", variant, first, seeds: until }));
      tell(`${variant}: ${until} of ${seeds} seeds, variant ${at + 1} of ${names.length}`);
      if (until === seeds) {
        break;
      }
    }
    for (const [group, means] of Object.entries(expected.groups)) {
      const found = (summary as unknown as Summary).groups.find(({ name }) => name === group)?.means ?? {};
      for (const [measure, mean] of Object.entries(means)) {
        numbers += 1;
        if (!isSame(found[measure], mean)) {
          differences.push(`${variant}: ${group}: ${measure}: ${String(found[measure]?.[0])}, in the report ${String(mean[0])}`);
        }
      }
    }
  }
  if (differences.length === 0) {
    tell(`The same: ${names.length * seeds} runs, ${names.length} fingerprints and ${numbers} means with their intervals.`, "same");
  } else {
    tell(`Not the same: ${differences.join("; ")}`, "different");
  }
}

function isSame(found: Mean | undefined, expected: Mean): boolean {
  return found !== undefined && expected.every((one, at) => {
    const other = found[at] ?? null;
    return one === null || other === null ? one === other : Math.abs(one - other) <= SAME * Math.abs(one);
  });
}

function tell(text: string, result = ""): void {
  const told = element("checked");
  told.textContent = text;
  told.dataset["result"] = result;
}

element("check").addEventListener("click", (event) => {
  const button = event.currentTarget as HTMLButtonElement;
  button.disabled = true;
  tell("The simulator is starting…");
  check()
    .catch((failure: unknown) => tell(failure instanceof Error ? failure.message : String(failure), "failed"))
    .finally(() => (button.disabled = false));
});
/** Returns an address of the explorer, which begins with the scenario of the report. */
async function explorer(): Promise<string> {
  const page = (await contents("explorer")).replace('id="state"><', () => `id="state">${element("state").textContent!.trim()}<`);
  return URL.createObjectURL(new Blob([page], { type: "text/html" }));
}

element("explore").addEventListener("click", () => void explorer().then((url) => open(url)));
element("touch").addEventListener("click", (event) => {
  (event.currentTarget as HTMLButtonElement).disabled = true;
  void explorer().then((url) => {
    const frame = document.createElement("iframe");
    frame.src = url;
    frame.title = "the scenario, with controls and drawings";
    element("touched").replaceChildren(frame);
    frame.scrollIntoView();
  });
});
