// job-id — a job by its name and its run: `NAME/RUN`. The name is given by people and outlives every scheduler and every start; the run tells one start of the whole
// job from the next, so that nodes of an earlier start are strangers to it. A node that knows no run yet says `NAME`, one that was not told the name says "".

import { type Check, shortText } from "./json-body.ts";

export const jobShape: Check<string> = shortText(256);

const SEPARATOR = "/";

export function jobId(name: string, run: string): string {
  return `${name}${SEPARATOR}${run}`;
}

export function jobNameOf(job: string): string {
  return job.split(SEPARATOR, 1)[0] ?? "";
}

/** In what two ids contradict each other, if they do: what one of them does not say contradicts nothing. */
export function jobConflict(one: string, other: string): "name" | "run" | undefined {
  if (one === "" || other === "" || one === other) return undefined;
  if (jobNameOf(one) !== jobNameOf(other)) return "name";
  return one.includes(SEPARATOR) && other.includes(SEPARATOR) ? "run" : undefined;
}
