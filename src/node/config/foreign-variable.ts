// foreign-variable — a variable of ps-lite, Hetu or MindSpore that sets one of our keys, and the translation it needs.
// A translation is pure text work; the key's own kind checks its result.

import { addressOfInterface, firstOuterAddress, listInterfaces, type NetworkInterfaces } from "./network-interface.ts";
import type { FlatConfig, LogLevel, Role } from "./node-config.ts";

export type VariableContext = {
  /** Another variable of the same source; undefined when missing or empty. */
  readonly variable: (name: string) => string | undefined;
  /** The keys given so far, in the order of the table. */
  readonly known: Readonly<Partial<FlatConfig>>;
  readonly interfaces: NetworkInterfaces;
};

/** Undefined: the variable does not set this key. */
export type Translate = (text: string, surroundings: VariableContext) => unknown;

export type ForeignVariable = {
  readonly name: string;
  /** For the documentation, if the name alone is not clear. */
  readonly note?: string;
  /** The roles that read it; all if left out. */
  readonly roles?: readonly Role[];
  /** True: read only if those before it in the list set nothing. Otherwise two that differ are an error. */
  readonly yields?: true;
  /** If left out, the text itself is the value. */
  readonly translate?: Translate;
};

/** What a translation returns to refuse a text. */
export class Refusal {
  readonly expected: string;
  readonly fix: string | undefined;

  constructor(expected: string, fix?: string) {
    this.expected = expected;
    this.fix = fix;
  }
}

const SWITCH: ReadonlyMap<string, boolean> = new Map([
  ["0", false],
  ["1", true],
  ["false", false],
  ["true", true],
]);

function switchOf(text: string | undefined): boolean | undefined {
  return SWITCH.get(text?.toLowerCase() ?? "");
}

/** A switch (0 or 1) with one value for each state. */
export function onSwitch(on: unknown, off: unknown): Translate {
  return (text) => {
    const state = switchOf(text);
    if (state === undefined) return new Refusal("0 or 1");
    return state ? on : off;
  };
}

/**
 * Web services use this name as well: it is ps-lite's only in a process that has a role from ps-lite's own variables.
 */
export function psliteOnly(text: string, { variable }: VariableContext): unknown {
  return variable("DMLC_ROLE") === undefined ? undefined : text;
}

export function seconds(text: string): unknown {
  return /^\d+(\.\d+)?$/.test(text) ? Math.round(Number(text) * 1000) : new Refusal("a number of seconds, 0 for off");
}

/** Translates one word into another; refuses a word that is not in the table. */
export function words(table: Readonly<Record<string, unknown>>, expected: string, fix?: string): Translate {
  return (text) => (Object.hasOwn(table, text) ? table[text] : new Refusal(expected, fix));
}

/** ps-lite: 0 is quiet, 1 logs connections, 2 every message. */
export function verbosity(text: string): LogLevel | Refusal {
  if (!/^\d+$/.test(text)) return new Refusal("0, 1 or 2");
  if (Number(text) === 0) return "warn";
  return Number(text) === 1 ? "info" : "debug";
}

export function interfaceAddress(text: string, { interfaces }: VariableContext): unknown {
  const fix = `name one of ${listInterfaces(interfaces)}`;
  return addressOfInterface(text, interfaces) ?? new Refusal("the name, or the beginning of the name, of a network interface", fix);
}

/** Inside Kubernetes ps-lite uses the pod's own address. */
export function podAddress(text: string, { interfaces }: VariableContext): unknown {
  if (switchOf(text) !== true) return undefined; // `host` reports a bad switch.
  return firstOuterAddress(interfaces);
}

/** ps-lite reads the timeout only if resending is on. Dropping messages turns it on. */
export function resendTimeout(text: string, { variable }: VariableContext): unknown {
  const drops = Number(variable("PS_DROP_MSG") ?? 0) > 0;
  return (switchOf(variable("PS_RESEND")) ?? drops) ? text : undefined;
}
