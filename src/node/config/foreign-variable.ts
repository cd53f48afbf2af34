// foreign-variable — a variable of ps-lite, Hetu or MindSpore that sets one of our keys, and the translation it needs.
// A translation is pure text work; the key's own kind checks its result.

import { addressOfInterface, firstOuterAddress, listInterfaces, type NetworkInterfaces } from "./network-interface.ts";
import type { FlatConfig, LogLevel, Role } from "./node-config.ts";

export type Surroundings = {
  /** Another variable of the same source; undefined when missing or empty. */
  readonly variable: (name: string) => string | undefined;
  /** The keys given so far, in the order of the table. */
  readonly known: Readonly<Partial<FlatConfig>>;
  readonly interfaces: NetworkInterfaces;
};

/** Undefined: the variable has nothing to say about this key. */
export type Translate = (text: string, surroundings: Surroundings) => unknown;

export type ForeignVariable = {
  readonly name: string;
  /** For the documentation, where the name alone does not say it. */
  readonly note?: string;
  /** The roles that listen to it; all when left out. */
  readonly roles?: readonly Role[];
  /** True: counts only when those before it in the list had nothing to say. Otherwise two that differ are an error. */
  readonly yields?: true;
  /** The text itself when left out. */
  readonly translate?: Translate;
};

/** A translation's way to say no. */
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

/** A switch (0 or 1) that means one thing or the other. */
export function onSwitch(on: unknown, off: unknown): Translate {
  return (text) => {
    const state = switchOf(text);
    if (state === undefined) return new Refusal("0 or 1");
    return state ? on : off;
  };
}

/** A name that web services use as well: it is ps-lite's only in a process that ps-lite's own variables give a role. */
export function psliteOnly(text: string, { variable }: Surroundings): unknown {
  return variable("DMLC_ROLE") === undefined ? undefined : text;
}

export function seconds(text: string): unknown {
  return /^\d+(\.\d+)?$/.test(text) ? Math.round(Number(text) * 1000) : new Refusal("a number of seconds, 0 for off");
}

/** One word for another; a word that is not listed is refused. */
export function words(table: Readonly<Record<string, unknown>>, expected: string, fix?: string): Translate {
  return (text) => (Object.hasOwn(table, text) ? table[text] : new Refusal(expected, fix));
}

/** ps-lite: 0 is quiet, 1 tells of connections, 2 of every message. */
export function verbosity(text: string): LogLevel | Refusal {
  if (!/^\d+$/.test(text)) return new Refusal("0, 1 or 2");
  if (Number(text) === 0) return "warn";
  return Number(text) === 1 ? "info" : "debug";
}

export function interfaceAddress(text: string, { interfaces }: Surroundings): unknown {
  const fix = `name one of ${listInterfaces(interfaces)}`;
  return addressOfInterface(text, interfaces) ?? new Refusal("the name, or the beginning of the name, of a network interface", fix);
}

/** Inside Kubernetes ps-lite takes the pod's own address. */
export function podAddress(text: string, { interfaces }: Surroundings): unknown {
  if (switchOf(text) !== true) return undefined; // `host` reports a bad switch.
  return firstOuterAddress(interfaces);
}

/** ps-lite reads the timeout only when resending is on. Dropping messages turns it on. */
export function resendTimeout(text: string, { variable }: Surroundings): unknown {
  const drops = Number(variable("PS_DROP_MSG") ?? 0) > 0;
  return (switchOf(variable("PS_RESEND")) ?? drops) ? text : undefined;
}
