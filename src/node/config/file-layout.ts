// file-layout — tells apart what a config file may hold: flat keys, and the parts of Hetu's files.
//
//     shared: { DMLC_NUM_WORKER: 2 }      for every process
//     w0: { DMLC_ROLE: worker }           a section, for the process that asks for it
//     launch: { worker: 2, server: 1 }    how many processes Hetu's launcher starts here; checked, of no effect on a node
//     nodes: [{ host: localhost, … }]     the machines; see hetu-nodes.ts
//     workerCount: 2                      anything else is a flat key; so is `faults`, a mapping

import { isSlip } from "../../base/nearest-name.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { unknownName } from "./known-names.ts";
import { isMapping } from "./node-config.ts";
import { wholeNumber } from "./value-kind.ts";

type Mapping = Readonly<Record<string, unknown>>;

export type FileLayout = {
  readonly flat: Mapping;
  readonly shared: Mapping;
  readonly sections: ReadonlyMap<string, Mapping>;
  /** As written; undefined when there are none. */
  readonly nodes: unknown;
  readonly problems: readonly ConfigProblem[];
};

/** The parts of a file that are mappings; a section whose name is nearly one of these is a slip. */
const MAPPINGS: readonly string[] = ["shared", "launch", "faults"];
export const FILE_PARTS: readonly string[] = [...MAPPINGS, "nodes"];
const LAUNCH_KEYS: readonly string[] = ["worker", "server", "scheduler"];
const LAUNCH_COUNT = wholeNumber({ min: 0, max: 65_535 }, "count");

export function layOutFile(mapping: Mapping, origin: string): FileLayout {
  const flat: [string, unknown][] = [];
  const sections = new Map<string, Mapping>();
  const problems: ConfigProblem[] = [];
  for (const [name, value] of Object.entries(mapping)) {
    if (name === "shared" || name === "launch" || name === "nodes") continue;
    if (!isMapping(value) || name === "faults") flat.push([name, value]);
    else if (MAPPINGS.some((part) => isSlip(name, part)))
      problems.push(unknownName({ typed: name, origin, noun: "part", candidates: MAPPINGS }));
    else sections.set(name, value);
  }
  const shared = mappingOf("shared", mapping, origin, problems);
  checkLaunch(mappingOf("launch", mapping, origin, problems), origin, problems);
  return { flat: Object.fromEntries(flat), shared, sections, nodes: mapping.nodes ?? undefined, problems };
}

function mappingOf(name: string, document: Mapping, origin: string, problems: ConfigProblem[]): Mapping {
  const value = document[name] ?? {};
  if (isMapping(value)) return value;
  const fix = `write ${name} as a mapping, or remove it`;
  problems.push({ subject: name, origin, expected: "a mapping from keys to values", found: quote(value), fix });
  return {};
}

function checkLaunch(launch: Mapping, origin: string, problems: ConfigProblem[]): void {
  for (const [name, value] of Object.entries(launch)) {
    const subject = `launch.${name}`;
    const isCount = LAUNCH_COUNT.read(value) !== undefined || (name === "scheduler" && typeof value === "boolean");
    if (!LAUNCH_KEYS.includes(name)) {
      problems.push(unknownName({ typed: subject, origin, noun: "part of launch", candidates: LAUNCH_KEYS.map((key) => `launch.${key}`) }));
    } else if (!isCount) {
      const fix = `give ${subject} such a value, or remove it: a node does not need it`;
      problems.push({ subject, origin, expected: LAUNCH_COUNT.expected, found: quote(value), fix });
    }
  }
}
