// replica-workspace — the memory of a network that several threads compute with: a replica of a network has gradients
// and activations of its own, and the values of the network's parameters. The owner lays replicas out, and allocates
// and releases their memory; a thread builds its replica once more over the same spans, and allocates nothing.
//
// Invariants:
//   ReplicaWorkspace.R1. A network that is built twice in the same way asks for the same spans in the same order.

import { badArgument } from "../base/errors.ts";
import { Arena } from "../kernel/arena.ts";
import type { KernelMemory } from "../kernel/inlined-module.ts";
import { type FloatSpan, Workspace, type WorkspaceSpan } from "./workspace.ts";

/** The values of a parameter, by its name. */
export type SharedValues = { readonly name: string; readonly address: number; readonly floatCount: number };

export class ReplicaWorkspace extends Workspace {
  readonly #values: ReadonlyMap<string, SharedValues>;
  readonly #laidOut: readonly WorkspaceSpan[] | undefined;
  #next = 0;

  private constructor(arena: Arena, values: readonly SharedValues[], laidOut: readonly WorkspaceSpan[] | undefined) {
    super({ arena });
    this.#values = new Map(values.map((each) => [each.name, each]));
    this.#laidOut = laidOut;
  }

  /** Of the owner: allocates in the arena of the network. */
  static layOut(arena: Arena, values: readonly SharedValues[]): ReplicaWorkspace {
    return new ReplicaWorkspace(arena, values, undefined);
  }

  /** Of a thread that computes with what the owner laid out. It is never closed. */
  static attach(memory: KernelMemory, values: readonly SharedValues[], spans: readonly WorkspaceSpan[]): ReplicaWorkspace {
    return new ReplicaWorkspace(new Arena({ opened: memory }), values, spans);
  }

  override valuesOf(name: string): FloatSpan | undefined {
    const known = this.#values.get(name);
    if (known === undefined) return undefined;
    return { address: known.address, values: new Float32Array(this.arena.memory.buffer, known.address, known.floatCount) };
  }

  /** Throws BAD_ARGUMENT for a network that is not built in the same way every time (ReplicaWorkspace.R1). */
  protected override allocate(byteCount: number): number {
    if (this.#laidOut === undefined) return super.allocate(byteCount);
    const span = this.#laidOut[this.#next++];
    if (span?.byteCount === byteCount) return span.address;
    throw badArgument("a network that several devices train is built in the same way every time");
  }
}
