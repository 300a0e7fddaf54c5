// Predictions of the analytical models beside the simulated mean.

import type { Reply } from "../message";
import { told } from "../charts";
import { tag } from "../controls";
import type { Summary } from "../study";

/** Shows what the models say about both runs, given as the answers to the question `models`. */
export function showModels(place: HTMLElement, names: [string, string], replies: [Reply, Reply], summaries: [Summary, Summary] | null): void {
  const columns = replies.map(({ head }) => head["predictions"] as [string, number][] | null);
  if (columns.every((one) => one === null)) {
    const why = "The models are of a single transfer by Reno, whose packets are lost at random: these runs have more.";
    place.replaceChildren(tag("p", {}, why, " A scenario to which they apply has one ", tag("code", {}, "bulk"), " transfer and a loss such as ", tag("code", {}, "bernoulli:2%"), "."));
    return;
  }
  const labels = [...new Set(columns.flatMap((one) => (one ?? []).map(([label]) => label)))];
  const simulated = (at: 0 | 1): string => {
    const mean = summaries?.[at].groups[0]?.means["completed_s"];
    return mean === undefined ? "–" : mean[1] === null ? told(mean[0]) : `${told(mean[0])} [${told(mean[1]!)}, ${told(mean[2]!)}]`;
  };
  const rows = [
    tag("tr", {}, tag("th", { scope: "row" }, "simulated, mean over the seeds"), tag("td", {}, simulated(0)), tag("td", {}, simulated(1))),
    ...labels.map((label) =>
      tag("tr", {}, tag("th", { scope: "row" }, label), ...columns.map((one) => {
        const found = one?.find(([of]) => of === label);
        return tag("td", {}, found === undefined ? "does not apply" : told(found[1]));
      })),
    ),
  ];
  const head = tag("tr", {}, tag("th", { scope: "col" }, "mean time of the transfer, s"), ...names.map((name) => tag("th", { scope: "col" }, name)));
  place.replaceChildren(
    tag("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "models" }, tag("table", {}, tag("caption", {}, "Models and simulation of the same transfer"), tag("thead", {}, head), tag("tbody", {}, ...rows))),
  );
}
