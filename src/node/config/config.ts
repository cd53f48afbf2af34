// config — loadConfig: options beat the command line, which beats the environment, which beats a file. It reads at most
// one file and reports all problems in one error.

import { networkInterfaces } from "node:os";
import {
  type ConfigFile,
  type FileDocument,
  type FileSource,
  fileSource,
  type NamedText,
  parseConfigFile,
  readConfigFile,
} from "./config-file.ts";
import { ABSENT, type ConfigKey, flagOf, foreignVariablesOf, variableOf, waysToSet } from "./config-key.ts";
import { FILE_KEYS, KEY_NAMES, KEYS } from "./config-keys.ts";
import { badConfig, type ConfigProblem, quote } from "./config-problem.ts";
import { AUTO, brokenRules, suspicions, type WhereFrom } from "./config-rules.ts";
import { type ConfigSource, commandLineSource, environmentSource, optionsSource } from "./config-source.ts";
import { warnOnce } from "./config-warnings.ts";
import { nestConfig } from "./flat-config.ts";
import type { NetworkInterfaces } from "./network-interface.ts";
import type { FlatConfig, KeyName, NodeConfig, NodeConfigOptions } from "./node-config.ts";
import { resolveKey } from "./resolve-key.ts";

const LAUNCH_HINT =
  "A script that is run by itself knows of no cluster. `npx weighbridge launch -s 2 -w 2 -- script.ts` starts one and sets all of this; " +
  "an EmbeddedCluster needs none of it.";

/** Of a value that nobody gave. */
const DEFAULT_ORIGIN = "default";

export type ConfigSources = {
  readonly options?: NodeConfigOptions;
  /** Names of other options, which the caller reads: a misspelt name in `options` may mean one of them. */
  readonly otherOptions?: readonly string[];
  /** commander's `opts()`: the flags of `describeKeys`, by their `flagKey`. */
  readonly commandLine?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A file that was read already. If left out, the file that `config` names is read. */
  readonly file?: ConfigFile;
  /** Preferences of a command: weaker than the file, stronger than the table's defaults. */
  readonly defaults?: NodeConfigOptions;
  /** Called for what is valid but suspicious. If left out, it becomes a warning of the process, once. */
  readonly warn?: (warning: string) => void;
  /** True accepts a rank beyond the counts. */
  readonly isAnyRankAllowed?: boolean;
  /** For tests; otherwise this machine's. */
  readonly interfaces?: NetworkInterfaces;
};

/** Throws a WeighbridgeError with code BAD_CONFIG that lists every problem. */
export function loadConfig(sources: ConfigSources): NodeConfig {
  return loadOrigins(sources).config;
}

/** The same, and which keys were given: by an option, the command line, the environment or a file. */
export function loadOrigins(sources: ConfigSources): { readonly config: NodeConfig; readonly given: ReadonlySet<KeyName> } {
  const { options = {}, commandLine = {}, env = {}, defaults = {}, interfaces = networkInterfaces(), warn = warnOnce } = sources;
  // The strongest first.
  const ranked: ConfigSource[] = [
    optionsSource(options, { others: sources.otherOptions }),
    commandLineSource(commandLine),
    environmentSource(env),
  ];
  const problems = ranked.flatMap((source) => source.problems);

  const { document, section, unusable } = openFile(sources.file, ranked);
  // Without its file half the configuration would seem missing, so the rest is not checked.
  if (unusable.length > 0) throw badConfig([...problems, ...unusable]);
  const file = document && fileSource({ document, section, interfaces });
  if (file !== undefined) {
    ranked.push(file);
    problems.push(...file.problems);
  }
  ranked.push(optionsSource(defaults, { origin: DEFAULT_ORIGIN }));

  const given = readKeys(ranked, interfaces);
  problems.push(...given.problems, ...missingKeys(given, file, section));
  const known = withDefaults(given);
  const whereFrom = (name: KeyName): WhereFrom => given.whereFrom.get(name) ?? { subject: name, origin: DEFAULT_ORIGIN };
  problems.push(...brokenRules(known, whereFrom, sources.isAnyRankAllowed === true ? ["rank"] : []));
  if (problems.length > 0) throw badConfig(problems, isAlone(problems) ? LAUNCH_HINT : "");

  const complete = known as FlatConfig; // Nothing was missing or broken.
  const config = complete.resume === AUTO ? { ...complete, resume: complete.checkpointDir } : complete;
  for (const warning of [...given.warnings, ...defaultPortWarnings(given, ranked, config), ...suspicions(config)]) warn(warning);
  const named = [...given.whereFrom].filter(([, { origin }]) => origin !== DEFAULT_ORIGIN).map(([name]) => name);
  return { config: nestConfig(config), given: new Set(named) };
}

/** A scheduler whose port was meant to be the one of a service link would be looked for at the default port. */
function defaultPortWarnings({ known }: GivenKeys, sources: readonly ConfigSource[], { schedulerPort }: FlatConfig): string[] {
  const link = known.schedulerPort === undefined && known.schedulers === undefined ? linkText("schedulerPort", sources) : undefined;
  return link === undefined ? [] : [`${link}; schedulerPort is ${schedulerPort}`];
}

/** Whether nothing set this process's role: no command of ours started it. */
function isAlone(problems: readonly ConfigProblem[]): boolean {
  return problems.some(({ subject, origin }) => subject === "role" && origin === "required");
}

type OpenedFile = {
  readonly document?: FileDocument;
  readonly section?: NamedText | undefined;
  readonly unusable: readonly ConfigProblem[];
};

function openFile(file: ConfigFile | undefined, sources: readonly ConfigSource[]): OpenedFile {
  const named = resolveKey({ name: "config", key: FILE_KEYS.config, sources, known: {}, interfaces: {} });
  const section = resolveKey({ name: "section", key: FILE_KEYS.section, sources, known: {}, interfaces: {} });
  const broken = [named, section].filter((resolution) => resolution.state === "broken");
  if (broken.length > 0) return { unusable: broken.map(({ problem }) => problem) };

  const chosen = section.state === "given" ? section : undefined;
  if (file !== undefined || named.state === "given") {
    const document = file === undefined ? readConfigFile(named as NamedText) : parseConfigFile(file);
    return { document, section: chosen, unusable: document.problems };
  }
  if (chosen === undefined) return { unusable: [] };
  const { subject, origin } = chosen;
  const fix = `name the file with ${flagOf("config")}, ${variableOf("config")} or the option config, or remove ${subject}`;
  return { unusable: [{ subject, origin, expected: "a config file to choose a section of", found: "no config file", fix }] };
}

type GivenKeys = {
  readonly known: Readonly<Partial<FlatConfig>>;
  readonly broken: ReadonlySet<KeyName>;
  readonly whereFrom: ReadonlyMap<KeyName, WhereFrom>;
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly string[];
};

function readKeys(sources: readonly ConfigSource[], interfaces: NetworkInterfaces): GivenKeys {
  const known: Partial<Record<KeyName, unknown>> = {};
  const broken = new Set<KeyName>();
  const whereFrom = new Map<KeyName, WhereFrom>();
  const problems: ConfigProblem[] = [];
  const warnings: string[] = [];
  for (const name of KEY_NAMES) {
    const soFar = known as Partial<FlatConfig>; // Every value passed the schema of its key.
    const key: ConfigKey<unknown> = KEYS[name];
    const resolution = resolveKey({ name, key, sources, known: soFar, interfaces });
    if (resolution.state === "broken") {
      broken.add(name);
      problems.push(resolution.problem);
    } else if (resolution.state === "given") {
      known[name] = resolution.value;
      whereFrom.set(name, { subject: resolution.subject, origin: resolution.origin });
      if (resolution.warning !== undefined) warnings.push(resolution.warning);
    }
  }
  return { known: known as Partial<FlatConfig>, broken, whereFrom, problems, warnings };
}

function missingKeys({ known, broken }: GivenKeys, file: FileSource | undefined, section: NamedText | undefined): ConfigProblem[] {
  const isMissing = (name: KeyName): boolean => {
    const { required, valueFor } = KEYS[name].fallback;
    return required && !Object.hasOwn(known, name) && !broken.has(name) && valueFor(known) === undefined;
  };
  const missing = KEY_NAMES.filter(isMissing);
  const sections = section === undefined ? (file?.sections ?? []) : [];
  const choose = sections.length === 0 ? "" : `; or choose a section of the file with --section: ${sections.join(", ")}`;
  return missing.map((name) => {
    const fix = waysToSet(name, KEYS[name]) + choose;
    return { subject: name, origin: "required", expected: KEYS[name].kind.expected, found: "nothing", fix };
  });
}

/** About a variable with the name of a key that is a service link. */
function linkText(name: KeyName, sources: readonly ConfigSource[]): string | undefined {
  const names = [variableOf(name), ...foreignVariablesOf(KEYS[name]).map((variable) => variable.name)];
  for (const { links } of sources) {
    const link = names.find((variable) => links?.has(variable));
    if (link !== undefined) return `${link} is ${quote(links?.get(link))}, a service link of Kubernetes, and is not read`;
  }
  return undefined;
}

/** A key that is missing or invalid stays out, and so does every default that depends on it. */
function withDefaults({ known, broken }: GivenKeys): Readonly<Partial<FlatConfig>> {
  const all: Partial<Record<KeyName, unknown>> = {};
  for (const name of KEY_NAMES) {
    const { fallback } = KEYS[name];
    if (Object.hasOwn(known, name)) all[name] = known[name];
    if (Object.hasOwn(known, name) || broken.has(name)) continue;
    // As in readKeys; a default is of its key's type.
    const value: unknown = fallback.valueFor({ ...known, ...(all as Partial<FlatConfig>) });
    if (value !== undefined || fallback === ABSENT) all[name] = value;
  }
  return all as Partial<FlatConfig>;
}
