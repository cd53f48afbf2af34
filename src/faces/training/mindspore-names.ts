// mindspore-names — options as MindSpore spells them (init_in_server, vocab_size), for the functions that take over its keyword arguments. Both spellings of one
// option are refused: nobody could say which is meant.

import { WeighbridgeError } from "../../base/errors.ts";

/** The same options in our spelling: `vocab_size` is `vocabSize`; `renamed` has those that are called otherwise here. What is no object is given back. */
export function inOurNames(options: unknown, what: string, renamed: Readonly<Record<string, string>> = {}): unknown {
  if (typeof options !== "object" || options === null) return options;
  const named: Record<string, unknown> = {};
  const spelled = new Map<string, string>();
  for (const [name, value] of Object.entries(options)) {
    const camel = inCamelCase(name);
    const ours = Object.hasOwn(renamed, camel) ? renamed[camel]! : camel;
    const other = spelled.get(ours);
    if (other !== undefined) throw new WeighbridgeError("BAD_ARGUMENT", `${what} have both ${other} and ${name}, which are the same`);
    spelled.set(ours, name);
    named[ours] = value;
  }
  return named;
}

/** `vocab_size` as `vocabSize`; any other name as it is. */
export function inCamelCase(name: string): string {
  return name.replaceAll(/(?<=[a-z\d])_([a-z\d])/g, (_, letter: string) => letter.toUpperCase());
}
