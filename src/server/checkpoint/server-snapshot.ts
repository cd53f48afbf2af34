// server-snapshot — one server's contribution to a checkpoint: everything at the cut, until it is written. `freeze` is
// the cut: it runs between two requests, and takes as long as naming the blocks. The vector clock says which updates
// are in it (spec/consistency.md, D2).

import { asError, type WeighbridgeError } from "../../base/errors.ts";
import type { VectorClock } from "../../consistency/vector-clock.ts";
import type { MemoryUse } from "../../kernel/arena.ts";
import type { ClockRecord } from "../../store/snapshot/checkpoint-manifest.ts";
import type { ServerReport, ShardSink } from "../../store/snapshot/snapshot-files.ts";
import type { JsonObject } from "../../wire/json-value.ts";
import { isGuest, rankOf } from "../../wire/node-id.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameter, Parameters } from "../parameters/parameters.ts";
import { type ParameterSnapshot, snapshotOf } from "./parameter-snapshot.ts";
import { snapshotsOfSums } from "./sums-snapshot.ts";

type ServerSnapshotOptions = {
  readonly parameters: Parameters;
  readonly vectorClock: VectorClock;
  readonly ownership: Ownership;
  /** Whether sums are in: those of a whole checkpoint, not of one parameter. */
  readonly withSums: boolean;
};

export class ServerSnapshot {
  readonly #options: ServerSnapshotOptions;
  #parts: ParameterSnapshot[] = [];
  #sums: readonly ParameterSnapshot[] = [];
  readonly #frozen = new Map<string, Parameter | undefined>();
  /** Parameters whose updaters have failed: they cannot be saved. */
  readonly #failed = new Map<string, WeighbridgeError>();
  #clocks: readonly ClockRecord[] = [];
  #workers: ServerReport["workers"] = [];
  #state: JsonObject = {};

  constructor(options: ServerSnapshotOptions) {
    this.#options = options;
  }

  /** Throws UNKNOWN_PARAMETER, ARENA_FULL or HANDLER_FAILED (HostedParameter.H4), with nothing held. */
  freeze(): void {
    const { parameters, vectorClock, ownership, withSums } = this.#options;
    try {
      if (withSums) this.#sums = snapshotsOfSums(parameters.sums, parameters.host.arena);
      for (const { spec, failure } of parameters.isRestoring ? [] : parameters.all) {
        const { name } = spec;
        if (failure !== undefined) {
          if (withSums) throw failure;
          this.#failed.set(name, failure); // others may still be saved
          continue;
        }
        this.#parts.push(snapshotOf(name, parameters, ownership));
        this.#frozen.set(name, parameters.find(name));
      }
    } catch (thrown) {
      this.close();
      throw thrown;
    }
    const clocks = [...vectorClock.entries()].filter(([node]) => !isGuest(node)); // no guest is one of a restored job
    this.#clocks = clocks.map(([worker, { incarnation, stamp }]) => ({ worker, incarnation, stamp }));
    this.#workers = parameters.pacer.members().map(({ worker, clock }) => ({ rank: rankOf(worker), clock }));
    const training = Object.fromEntries(this.#parts.map(({ record }) => [record.name, record.state]));
    this.#state = { ...placementState(ownership), training };
  }

  /** The parameters as they were, in the order of their creation, then the sums. */
  get records(): ServerReport["parameters"] {
    return this.#all.map(({ record }) => record);
  }

  /** Of the parameters. */
  get names(): readonly string[] {
    return [...this.#parts.map(({ record }) => record.name), ...this.#failed.keys()];
  }

  get #all(): readonly ParameterSnapshot[] {
    return [...this.#parts, ...this.#sums];
  }

  /** What was cleared or replaced since the cut. */
  get gone(): readonly string[] {
    const { parameters } = this.#options;
    return [...this.#frozen].filter(([name, frozen]) => parameters.find(name) !== frozen).map(([name]) => name);
  }

  /** Arena bytes that exist twice. */
  get keptBytes(): number {
    return this.#all.reduce((sum, part) => sum + part.keptBytes, 0);
  }

  /** Whether giving up this snapshot would make room for so many bytes of this use. */
  blocks(use: MemoryUse, byteCount: number): boolean {
    const { parameters } = this.#options;
    const { arena } = parameters.host;
    if (parameters.keepsCleared) return true; // as much as was cleared
    if (use === "move" || arena.reserveBytes === 0) return true;
    // What lies in the reserve is not for state.
    return use === "work" ? this.keptBytes >= byteCount : this.keptBytes > arena.reserveBytes / 2 + arena.movedBytes;
  }

  /** Releases all but these parameters, which alone are written. Throws HANDLER_FAILED (HostedParameter.H4). */
  choose(names: readonly string[]): void {
    for (const name of names) {
      const failure = this.#failed.get(name);
      if (failure !== undefined) throw failure;
    }
    const chosen = new Set(names);
    for (const part of this.#parts) if (!chosen.has(part.record.name)) part.close();
    this.#parts = this.#parts.filter(({ record }) => chosen.has(record.name));
  }

  /** Each part is released once it is written; after a failure everything is. */
  async write(sink: ShardSink): Promise<ServerReport> {
    try {
      for (const part of this.#all) await part.write(sink);
      const files = await sink.finish();
      const record = { rank: this.#options.ownership.rank, files, vectorClock: this.#clocks, state: this.#state };
      return { record, parameters: this.records, workers: this.#workers };
    } catch (thrown) {
      this.close();
      await sink.abandon();
      throw asError(thrown, "HANDLER_FAILED");
    }
  }

  /** Writes no more: releases what is held, at once. */
  lose(error: WeighbridgeError): void {
    for (const part of this.#all) part.lose(error);
  }

  close(): void {
    for (const part of this.#all) part.close();
  }
}

/** What a restore has to know of the owners. */
function placementState({ placement, hasAppCut }: Ownership): JsonObject {
  const appCut: JsonObject = hasAppCut ? { appCut: true } : {};
  if (placement === undefined) return appCut;
  const { epoch, policy, servers, moved = [] } = placement;
  return { placement: { epoch, policy, servers: [...servers], moved: [...moved] }, ...appCut };
}
