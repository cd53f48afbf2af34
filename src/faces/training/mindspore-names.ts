// mindspore-names — options as MindSpore spells them (init_in_server, vocab_size), for the functions that have its
// keyword arguments. Throws BAD_ARGUMENT for both spellings of one option.

import { badArgument } from "../../base/errors.ts";

/**
 * `vocab_size` becomes `vocabSize`; `renamed` has names that differ here. Returns a value that is no object unchanged.
 */
export function inOurNames(options: unknown, what: string, renamed: Readonly<Record<string, string>> = {}): unknown {
  if (typeof options !== "object" || options === null) return options;
  const named: Record<string, unknown> = {};
  const spelled = new Map<string, string>();
  for (const [name, value] of Object.entries(options)) {
    const camel = inCamelCase(name);
    const ours = Object.hasOwn(renamed, camel) ? renamed[camel]! : camel;
    const other = spelled.get(ours);
    if (other !== undefined) throw badArgument(`${what} have both ${other} and ${name}, which are the same`);
    spelled.set(ours, name);
    named[ours] = value;
  }
  return named;
}

/** `vocab_size` as `vocabSize`; any other name as it is. */
export function inCamelCase(name: string): string {
  return name.replaceAll(/(?<=[a-z\d])_([a-z\d])/g, (_, letter: string) => letter.toUpperCase());
}
