// former-members — members of public classes that had another name once: whoever reads one is told the new name, at run
// time. They are in no declaration.

import { badArgument } from "./errors.ts";

/** `instead`: by the old name, what to write now. Reading an old one throws BAD_ARGUMENT. */
export function refuseFormer(of: { readonly name: string; readonly prototype: object }, instead: Readonly<Record<string, string>>): void {
  for (const [former, now] of Object.entries(instead)) {
    const get = (): never => {
      throw badArgument(`${of.name} has no ${former} any more: write ${now}`);
    };
    Object.defineProperty(of.prototype, former, { get, enumerable: false, configurable: true });
  }
}
