// config-file — reads a YAML or JSON file as a source of configuration: our keys and the names of variables (ours,
// ps-lite's, Hetu's, MindSpore's) side by side, and the sections of Hetu's files.
//
//     shared: { DMLC_NUM_WORKER: 2 }      for every process; beats the flat keys
//     w0: { DMLC_ROLE: worker }           a section, for the process that names it; beats `shared`
//     launch: { worker: 2, server: 1 }    how many processes Hetu's launcher starts; checked, of no effect on a node
//     nodes: [{ host, servers, … }]       the machines of `heturun`, turned into counts; one local machine only
//     workerCount: 2                      anything else is a flat key; so is `faults`, a mapping

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { hostname } from "node:os";
import { reasonOf } from "../../base/errors.ts";
import { isSlip, nearestName } from "../../base/nearest-name.ts";
import { variableOf } from "./config-key.ts";
import { KEY_NAMES } from "./config-keys.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { type ConfigSource, type Given, present } from "./config-source.ts";
import { flattenKeys, isMapping } from "./flat-config.ts";
import { FOREIGN_VARIABLES, isLauncherVariable, KEY_VARIABLES, unknownName } from "./known-names.ts";
import { isLoopback, type NetworkInterfaces } from "./network-interface.ts";
import { wholeNumber } from "./value-kind.ts";

type Mapping = Readonly<Record<string, unknown>>;

export type FileSource = ConfigSource & {
  /** The names of the sections, in the file's order. */
  readonly sections: readonly string[];
};

type FileRequest = {
  readonly document: FileDocument;
  /** This node's section, and where it was named. */
  readonly section: NamedText | undefined;
  readonly interfaces: NetworkInterfaces;
};

/** The parts of a file that are mappings; a section whose name nearly equals one of these is a typo. */
const MAPPINGS: readonly string[] = ["shared", "launch", "faults"];
const FILE_PARTS: readonly string[] = [...MAPPINGS, "nodes"];
const LAUNCH_KEYS: readonly string[] = ["worker", "server", "scheduler"];
const LAUNCH_COUNT = wholeNumber({ min: 0, max: 65_535 }, "count");

const OWN_NAMES: ReadonlyMap<string, string> = new Map(
  KEY_NAMES.flatMap((name) => [[name, name] as const, [variableOf(name), name] as const]),
);
const FILE_NAMES: readonly string[] = [...KEY_NAMES, ...KEY_VARIABLES, ...FILE_PARTS];

/** Checks each field of an entry; all but the host are optional. */
const PARTS: Readonly<Record<keyof Machine, (value: unknown) => boolean>> = {
  host: (value) => typeof value === "string" && value !== "",
  servers: isCount,
  workers: isCount,
  chief: (value) => value === undefined || typeof value === "boolean",
};
const EXPECTED = "a list of { host: text, servers: count, workers: count, chief: true or false }";
const SEVERAL =
  "start one process per node yourself, each with the same schedulerHost and schedulerPort (or a file with `shared` and one section per process)";

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
  const classified = classify(given, problems);
  if (layout.nodes !== undefined) {
    const { counts, problems: wrong } = countNodes(layout.nodes, origin, interfaces);
    problems.push(...wrong);
    for (const [name, value] of Object.entries(counts ?? {})) push(classified.own, name, { subject: `nodes, as ${name}`, origin, value });
  }
  return { origin, ...classified, problems, sections: [...layout.sections.keys()] };
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

/** The library is loaded with the first YAML file: most processes have none, and its 70 modules take a while. */
const require = createRequire(import.meta.url);

export type ConfigFile = { readonly path: string; readonly text: string };

/** A path or a section's name, and the option or variable that names it. */
export type NamedText = { readonly subject: string; readonly origin: string; readonly value: string };

export type FileDocument = {
  readonly path: string;
  readonly mapping: Readonly<Record<string, unknown>>;
  /** Not empty: the file cannot be used. */
  readonly problems: readonly ConfigProblem[];
};

export function readConfigFile({ subject, origin, value: path }: NamedText): FileDocument {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const expected = "the path of a readable YAML or JSON file";
    const fix = "give such a path, absolute or from the folder the node was started in";
    const found = `${quote(path)}, but ${reasonOf(error)}`;
    return { path, mapping: {}, problems: [{ subject, origin, expected, found, fix }] };
  }
  return parseConfigFile({ path, text });
}

/** An empty file is an empty mapping. `<<` merges a mapping into another, as Hetu's files do. */
export function parseConfigFile({ path, text }: ConfigFile): FileDocument {
  const isJson = path.endsWith(".json");
  const refuse = (expected: string, found: string): FileDocument => {
    const problem = { subject: path, origin: `file:${path}`, expected, found, fix: "correct the file" };
    return { path, mapping: {}, problems: [problem] };
  };
  let value: unknown;
  try {
    value = isJson ? parseJson(text) : parseYaml(text);
  } catch (error) {
    return refuse(isJson ? "valid JSON" : "valid YAML or JSON", reasonOf(error).trimEnd());
  }
  const mapping = value ?? {};
  return isMapping(mapping) ? { path, mapping, problems: [] } : refuse("a mapping from keys to values", quote(value));
}

function parseJson(text: string): unknown {
  return text.trim() === "" ? undefined : JSON.parse(text);
}

function parseYaml(text: string): unknown {
  const { parseDocument } = require("yaml") as typeof import("yaml");
  const document = parseDocument(text, { merge: true });
  const [error] = document.errors;
  if (error !== undefined) throw error;
  return document.toJS();
}

type FileLayout = {
  readonly flat: Mapping;
  readonly shared: Mapping;
  readonly sections: ReadonlyMap<string, Mapping>;
  /** As written; undefined if there are none. */
  readonly nodes: unknown;
  readonly problems: readonly ConfigProblem[];
};

function layOutFile(mapping: Mapping, origin: string): FileLayout {
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

type NodeCounts = { readonly serverCount: number; readonly workerCount: number };
type CountedNodes = { readonly counts: NodeCounts | undefined; readonly problems: readonly ConfigProblem[] };

type Machine = { readonly host: string; readonly servers: number; readonly workers: number; readonly chief: boolean };

function countNodes(nodes: unknown, origin: string, interfaces: NetworkInterfaces): CountedNodes {
  const wrong = problemsOf(nodes, origin);
  if (wrong.length > 0) return { counts: undefined, problems: wrong };
  const machines = nodes as readonly Partial<Machine>[];
  const refuse = (expected: string, hosts: readonly (string | undefined)[], fix: string): CountedNodes => {
    const found = hosts.length === 0 ? "none" : hosts.join(", ");
    return { counts: undefined, problems: [{ subject: "nodes", origin, expected, found, fix }] };
  };
  const chiefs = machines.filter(({ chief }) => chief === true).map(({ host }) => host);
  if (chiefs.length !== 1) return refuse("exactly one entry with chief: true", chiefs, "mark the machine of the scheduler");
  const [{ host = "", servers = 0, workers = 0 } = {}, ...others] = machines;
  if (others.length === 0 && isLocal(host, interfaces)) return { counts: { serverCount: servers, workerCount: workers }, problems: [] };
  const hosts = machines.map((machine) => machine.host);
  return refuse("one entry for this machine; several machines are not supported yet", hosts, SEVERAL);
}

function isCount(value: unknown): boolean {
  return value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);
}

function problemsOf(nodes: unknown, origin: string): ConfigProblem[] {
  const wrong = (subject: string, found: unknown): ConfigProblem => ({
    ...{ subject, origin, expected: EXPECTED, found: quote(found), fix: `correct ${subject}` },
  });
  if (!Array.isArray(nodes) || nodes.length === 0) return [wrong("nodes", nodes)];
  return nodes.flatMap((machine: unknown, i) => {
    const subject = `nodes[${i}]`;
    if (typeof machine !== "object" || machine === null || Array.isArray(machine)) return [wrong(subject, machine)];
    const candidates = Object.keys(PARTS).map((part) => `${subject}.${part}`);
    const unknown = Object.keys(machine)
      .filter((part) => !Object.hasOwn(PARTS, part))
      .map((part) => unknownName({ typed: `${subject}.${part}`, origin, noun: "part of nodes", candidates }));
    const broken = Object.entries(PARTS)
      .filter(([part, fits]) => !fits(Reflect.get(machine, part)))
      .map(([part]) => wrong(`${subject}.${part}`, Reflect.get(machine, part)));
    return [...unknown, ...broken];
  });
}

function isLocal(host: string, interfaces: NetworkInterfaces): boolean {
  const addresses = Object.values(interfaces).flatMap((list) => list ?? []);
  return isLoopback(host) || host === hostname() || addresses.some(({ address }) => address === host);
}
