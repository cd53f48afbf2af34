// config-warnings — prints what is suspicious in a configuration, once: a command loads it for several nodes, its
// script loads it again, and a launcher has printed what the environment of its processes says. A process prints what
// its script alone says.

/** On `process`, since the script may have loaded another copy of the package. */
const PRINTED = Symbol.for("weighbridge.configWarnings");
type Printing = { [PRINTED]?: Set<string> };
/** What a launcher has printed for this process: the texts, as JSON. Not a name that `loadConfig` reads. */
const VARIABLE = "_WEIGHBRIDGE_PRINTED";

export function warnOnce(warning: string): void {
  const printing = process as Printing;
  printing[PRINTED] ??= new Set(JSON.parse(process.env[VARIABLE] ?? "[]") as string[]);
  const printed = printing[PRINTED];
  if (printed.has(warning)) return;
  printed.add(warning);
  process.emitWarning(warning, "WeighbridgeConfigWarning");
}

/** For the environment of a process that prints none of these. */
export function printedWarnings(warnings: readonly string[]): Readonly<Record<string, string>> {
  return warnings.length === 0 ? {} : { [VARIABLE]: JSON.stringify(warnings) };
}
