// loaded-plug-ins — whether all servers made a parameter with the same row type and updater: same version, same source.
// Servers do not ask each other; whoever makes the parameter compares what they answer.

import { WeighbridgeError } from "../base/errors.ts";
import { count, list, object, oneOf, text } from "../wire/json-body.ts";

const shape = list(object({ kind: oneOf("updater", "rowType"), name: text, version: count, hash: text, module: text }));
const KIND_WORDS = { updater: "updater", rowType: "row type" } as const;

/** The servers differ in a plug-in. Its code is SPEC_MISMATCH. */
export class PlugInDifference extends WeighbridgeError {}

/** `answers`: what each server said, by rank. Throws PlugInDifference, which names servers and modules. */
export function requireSamePlugIns(parameter: string, answers: ReadonlyMap<number, string>): void {
  const [first, ...others] = [...answers]
    .sort(([one], [other]) => one - other)
    .map(([server, json]) => ({
      server,
      plugIns: shape(JSON.parse(json), `plugIns of server ${server}`),
    }));
  for (const { server, plugIns } of first === undefined ? [] : others) {
    for (const [i, plugIn] of plugIns.entries()) {
      const other = first?.plugIns[i];
      if (other === undefined || (other.version === plugIn.version && other.hash === plugIn.hash)) continue;
      const what = `${KIND_WORDS[plugIn.kind]} ${JSON.stringify(plugIn.name)}`;
      const told = (at: number | undefined, { version, hash, module }: typeof plugIn): string =>
        `server ${at} version ${version} of ${module} (source ${hash})`;
      throw new PlugInDifference(
        "SPEC_MISMATCH",
        `${parameter}: servers have different modules with the ${what}: ${told(first?.server, other)}, ${told(server, plugIn)}`,
      );
    }
  }
}
