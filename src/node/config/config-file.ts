// config-file — a config file as a place. A file holds our keys and variables' names (ours, ps-lite's, Hetu's, MindSpore's) side by side;
// the chosen section beats `shared`, which beats the flat keys. Every section is checked for unknown names, not only the chosen one.

import { nearestName } from "../../base/nearest-name.ts";
import { variableOf } from "./config-key.ts";
import { KEY_NAMES } from "./config-keys.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { type ConfigSource, type Given, present } from "./config-source.ts";
import type { FileDocument, NamedText } from "./file-document.ts";
import { FILE_PARTS, layOutFile } from "./file-layout.ts";
import { countNodes } from "./hetu-nodes.ts";
import { FOREIGN_VARIABLES, isLauncherVariable, KEY_VARIABLES, unknownName } from "./known-names.ts";
import type { NetworkInterfaces } from "./network-interface.ts";
import { flattenKeys } from "./node-config.ts";

export type FileSource = ConfigSource & {
  /** The names of the sections, in the file's order. */
  readonly sections: readonly string[];
};

type FileRequest = {
  readonly document: FileDocument;
  /** Which section is this node's, and who said so. */
  readonly section: NamedText | undefined;
  readonly interfaces: NetworkInterfaces;
};

const OWN_NAMES: ReadonlyMap<string, string> = new Map(
  KEY_NAMES.flatMap((name) => [[name, name] as const, [variableOf(name), name] as const]),
);
const FILE_NAMES: readonly string[] = [...KEY_NAMES, ...KEY_VARIABLES, ...FILE_PARTS];

export function fileSource({ document, section, interfaces }: FileRequest): FileSource {
  const origin = `file:${document.path}`;
  const layout = layOutFile(document.mapping, origin);
  const problems = [...layout.problems];
  const given = new Map<string, Given>();
  const add = (part: Readonly<Record<string, unknown>>, from: string): void => {
    for (const [subject, value] of flattenKeys(part)) given.set(subject, { subject, value: present(value), origin: from });
  };
  add(layout.flat, origin);
  add(layout.shared, `${origin} section shared`);
  for (const [name, part] of layout.sections) {
    const from = `${origin} section ${name}`;
    if (name === section?.value) add(part, from);
    else problems.push(...unknownKeys(flattenKeys(part).keys(), from));
  }
  if (section !== undefined && !layout.sections.has(section.value)) {
    problems.push(noSuchSection(section, origin, [...layout.sections.keys()]));
  }
  const place = classify(given, problems);
  if (layout.nodes !== undefined) {
    const { counts, problems: wrong } = countNodes(layout.nodes, origin, interfaces);
    problems.push(...wrong);
    for (const [name, value] of Object.entries(counts ?? {})) push(place.own, name, { subject: `nodes, as ${name}`, origin, value });
  }
  return { origin, ...place, problems, sections: [...layout.sections.keys()] };
}

type Classified = { readonly own: Map<string, Given[]>; readonly foreign: Map<string, { origin: string; text: string }> };

function classify(given: ReadonlyMap<string, Given>, problems: ConfigProblem[]): Classified {
  const classified: Classified = { own: new Map(), foreign: new Map() };
  for (const [spelled, entry] of given) {
    const { origin, value } = entry;
    const name = OWN_NAMES.get(spelled);
    if (value === undefined) continue;
    if (name !== undefined) push(classified.own, name, entry);
    else if (!FOREIGN_VARIABLES.has(spelled)) problems.push(...unknownKeys([spelled], origin));
    else if (isScalar(value)) classified.foreign.set(spelled, { origin, text: String(value) });
    else problems.push({ subject: spelled, origin, expected: "a text or a number", found: quote(value), fix: `give ${spelled} one value` });
  }
  return classified;
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function push(own: Map<string, Given[]>, name: string, given: Given): void {
  own.set(name, [...(own.get(name) ?? []), given]);
}

function unknownKeys(names: Iterable<string>, origin: string): ConfigProblem[] {
  const isUnknown = (name: string) => !OWN_NAMES.has(name) && !FOREIGN_VARIABLES.has(name) && !isLauncherVariable(name);
  return [...names].filter(isUnknown).map((typed) => unknownName({ typed, origin, noun: "key or variable", candidates: FILE_NAMES }));
}

function noSuchSection({ subject, origin, value }: NamedText, file: string, sections: readonly string[]): ConfigProblem {
  const nearest = nearestName(value, sections);
  const expected = `a section of ${file}: ${sections.length === 0 ? "it has none" : sections.join(", ")}`;
  const fix = nearest === undefined ? `remove ${subject}` : `did you mean ${nearest}?`;
  return { subject, origin, expected, found: quote(value), fix };
}
