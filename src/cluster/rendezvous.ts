// rendezvous — workers wait for each other: each comes with a small value, and all leave with everybody's. Ends of
// epochs, alignments of clocks and shutdowns use it. Pure; the scheduler answers. Not a barrier: nobody waits for the
// dead, and a rendezvous that was held stays held, so that a worker which lost its answer, or was restarted, gets the
// same one again.
//
//   a rendezvous     a name and a generation, 0, 1, 2 … of that name
//
//   open ── every live worker has come ──► held ── generation + KEPT of the same name is held ──► forgotten
//
// Invariants:
//   Rendezvous.R1. It is held exactly when every live worker has come, and at least one has. Nobody waits for the dead
//       and those who left; a restarted worker has to come itself, whatever its earlier incarnation did.
//   Rendezvous.R2. Once held, its values never change: everybody gets the same, at any time.
//   Rendezvous.R3. A worker counts once for a generation; if it comes again before that is held, its newer value
//       counts.
//   Rendezvous.R4. Names and generations are bounded, values by their message. The last KEPT held generations of a name
//       are kept; an older one is answered as held, without values.
//   Rendezvous.R5. Any worker that left a generation reports it to a restarted scheduler (`recall`), so it stays held.

import { WeighbridgeError } from "../base/errors.ts";
import type { RendezvousName, RendezvousValue } from "../wire/control.ts";

/** A worker that lives. */
export type LiveWorker = { readonly rank: number; readonly incarnation: number };

/** Held: with the values of all who came, by rank. Not yet: with the live workers that have not come. */
export type RendezvousState =
  | { readonly isHeld: true; readonly values: readonly RendezvousValue[] }
  | { readonly isHeld: false; readonly missing: readonly number[] };

export const NAMES_MAX = 256;
/** Held generations of a name that are kept: a worker may still need the one before the newest. */
const KEPT = 2;
/** Generations of a name that may be open at once. */
const OPEN_MAX = 4;

/** Who came, by rank. */
type Generation = { readonly arrivals: Map<number, { readonly incarnation: number; readonly value: string }>; isHeld: boolean };

export class Rendezvous {
  readonly #names = new Map<string, Map<number, Generation>>();
  #live: readonly LiveWorker[] = [];

  /** The workers that live, by rank. Returns what is held now because of it. */
  follow(live: readonly LiveWorker[]): readonly RendezvousName[] {
    this.#live = live;
    return this.#review();
  }

  /** A worker comes. Returns what is held now because of it. Throws QUEUE_FULL beyond a bound (Rendezvous.R4). */
  come({ rank, incarnation }: LiveWorker, { name, generation }: RendezvousName, value: string): readonly RendezvousName[] {
    if (this.#isForgotten({ name, generation })) return [];
    const open = this.#generationOf({ name, generation });
    if (open.isHeld) return []; // Rendezvous.R2
    open.arrivals.set(rank, { incarnation, value }); // Rendezvous.R3
    return this.#review();
  }

  stateOf(rendezvous: RendezvousName): RendezvousState {
    if (this.#isForgotten(rendezvous)) return { isHeld: true, values: [] }; // Rendezvous.R4
    const generation = this.#names.get(rendezvous.name)?.get(rendezvous.generation);
    if (generation?.isHeld === true) return { isHeld: true, values: valuesOf(generation) };
    return { isHeld: false, missing: this.#missing(generation) };
  }

  /** A worker reports that it left this generation with these values (Rendezvous.R5). */
  recall(rendezvous: RendezvousName, values: readonly RendezvousValue[]): readonly RendezvousName[] {
    if (this.#isForgotten(rendezvous)) return [];
    const generation = this.#generationOf(rendezvous);
    if (generation.isHeld) return [];
    generation.arrivals.clear();
    for (const { rank, value } of values) generation.arrivals.set(rank, { incarnation: 0, value });
    generation.isHeld = true;
    this.#forgetBefore(rendezvous);
    return [rendezvous];
  }

  #review(): readonly RendezvousName[] {
    const held: RendezvousName[] = [];
    for (const [name, generations] of this.#names) {
      for (const [number, generation] of generations) {
        // Rendezvous.R1
        if (generation.isHeld || generation.arrivals.size === 0 || this.#missing(generation).length > 0) continue;
        generation.isHeld = true;
        held.push({ name, generation: number });
      }
    }
    for (const rendezvous of held) this.#forgetBefore(rendezvous);
    return held;
  }

  #missing(generation: Generation | undefined): readonly number[] {
    const hasCome = ({ rank, incarnation }: LiveWorker): boolean => generation?.arrivals.get(rank)?.incarnation === incarnation;
    return this.#live.filter((worker) => !hasCome(worker)).map(({ rank }) => rank);
  }

  #forgetBefore({ name, generation }: RendezvousName): void {
    const generations = this.#names.get(name);
    for (const number of generations?.keys() ?? []) if (number <= generation - KEPT) generations?.delete(number);
  }

  /** Whether so many later generations were held that nobody keeps this one. */
  #isForgotten({ name, generation }: RendezvousName): boolean {
    for (const [number, { isHeld }] of this.#names.get(name) ?? []) if (isHeld && generation <= number - KEPT) return true;
    return false;
  }

  #generationOf({ name, generation }: RendezvousName): Generation {
    const generations = this.#names.get(name) ?? new Map<number, Generation>();
    const known = generations.get(generation);
    if (known !== undefined) return known;
    const open = [...generations.values()].filter(({ isHeld }) => !isHeld).length;
    if (open >= OPEN_MAX) throw full(`${open} generations of "${name}" are open already`);
    if (this.#names.size >= NAMES_MAX && !this.#names.has(name)) this.#forgetOldestName();
    const made: Generation = { arrivals: new Map(), isHeld: false };
    this.#names.set(name, generations.set(generation, made));
    return made;
  }

  /** The name that was made first and at which nobody waits. */
  #forgetOldestName(): void {
    for (const [name, generations] of this.#names) {
      if (![...generations.values()].every(({ isHeld }) => isHeld)) continue;
      this.#names.delete(name);
      return;
    }
    throw full(`there are ${NAMES_MAX} names at which workers wait`);
  }
}

function valuesOf({ arrivals }: Generation): readonly RendezvousValue[] {
  return [...arrivals].map(([rank, { value }]) => ({ rank, value })).sort((a, b) => a.rank - b.rank);
}

function full(why: string): WeighbridgeError {
  return new WeighbridgeError("QUEUE_FULL", `no further rendezvous: ${why}`, { retryable: true });
}
