// ssp-group — Hetu's SSP control (kSSPInit, kSSPSync): groups of workers that keep within `tolerance` versions of each
// other. Hetu's workers poll until the answer is yes; here a sync waits parked. Pure; the server's functions answer.
//
//   init × size ──► formed ──► sync(v) passes when every member's version is at least v - tolerance
//
// The rule is that of reads (StalenessController.W2): a group is a staleness controller that forms with `size` members,
// and a parking lot.
//
// Invariants (spec/consistency.md):
//   SspGroup.G1. A sync passes exactly when the group has formed and every member's version is at least its own minus
//       the tolerance.
//   SspGroup.G2. Versions only rise, and so does the lowest. A worker that joins a formed group, perhaps again, starts
//       at the lowest, which the answer carries.
//   SspGroup.G3. Neither syncs nor the forming of the group wait for a member that died or left. While others are
//       missing, syncs fail with NODE_DEAD as soon as too few workers are alive.
//   SspGroup.G4. Every sync has a deadline. Groups, and the syncs of a group, are bounded (QUEUE_FULL). A group ends
//       with its last member.
//   SspGroup.G5. A worker that is no member gets NO_ROUTE, never NOT_JOINED, upon which its session would join the
//       clock set again.

import type { Clock } from "../base/clock.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import { type ParkedRead, type ParkedReadId, ParkingLot } from "./parking-lot.ts";
import { type ClocksImage, checkStaleness, StalenessController } from "./staleness-controller.ts";
import { type WorkerIncarnation, WorkerIncarnations } from "./worker-incarnations.ts";

const GROUPS_MAX = 4096;
/** Each member waits for one at a time; a few more may belong to callers that gave up and cancel later. */
const SYNCS_PER_MEMBER_MAX = 4;
const SIZE_MAX = 65_536;

type SspGroupsOptions = {
  readonly clock: Clock;
  /** How many workers are alive, members or not: a forming group can get no more. */
  readonly aliveCount: () => number;
};

type SspInit = WorkerIncarnation & { readonly group: bigint; readonly size: number; readonly tolerance: number };

type SspSync = WorkerIncarnation & {
  readonly group: bigint;
  readonly version: number;
  readonly timeoutMs: number;
  readonly waiter: ParkedRead;
};

/** Names a sync that waits to `cancel`. */
export type SspWaitId = { readonly group: SspGroup; readonly parked: ParkedReadId };

type SspGroup = {
  readonly size: number;
  readonly tolerance: number;
  readonly versions: StalenessController;
  readonly lot: ParkingLot;
};

/** A group with the versions of its members. */
export type SspGroupImage = {
  /** Decimal. */
  readonly key: string;
  readonly size: number;
  readonly tolerance: number;
  readonly versions: ClocksImage;
};

export class SspGroups {
  /** ParkingLot.P5 */
  onLongWait: (worker: number, waits: string) => void = () => {};
  readonly #options: SspGroupsOptions;
  readonly #groups = new Map<bigint, SspGroup>();
  readonly #holders = new WorkerIncarnations();

  constructor(options: SspGroupsOptions) {
    this.#options = options;
  }

  get groupCount(): number {
    return this.#groups.size;
  }

  /**
   * Makes the worker a member, and the group if it is the first. Returns the version at which it starts: 0 while the
   * group forms. The same again changes nothing. Throws BAD_ARGUMENT if the group has another size or tolerance,
   * QUEUE_FULL for one group too many, FENCED or NODE_DEAD for an incarnation that is over.
   */
  init({ group: key, size, tolerance, ...holder }: SspInit): number {
    this.#holders.check(holder);
    this.#holders.began(holder);
    const group = this.#groups.get(key) ?? this.#create({ size, tolerance });
    if (group.size !== size || group.tolerance !== tolerance) {
      const requested = `size ${size} and tolerance ${tolerance}`;
      throw badArgument(
        `${nameOf(holder.worker)} asks for SSP group ${key} with ${requested}: it has size ${group.size} and tolerance ${group.tolerance}`,
      );
    }
    const member = group.versions.memberAt(holder.worker);
    if (member === undefined && group.versions.isFormed && group.versions.memberCount >= size) {
      throw badArgument(`${nameOf(holder.worker)} finds SSP group ${key} with all its ${size} members`);
    }
    if (member !== undefined && member.incarnation < holder.incarnation) this.#end(group, { ...holder, incarnation: member.incarnation });
    const version = group.versions.join(holder);
    this.#groups.set(key, group); // only now: a group whose first member was refused does not exist
    group.lot.release(sspMinimum(group));
    return version;
  }

  /**
   * The worker has reached `version`. Undefined: it may go on. Otherwise it waits for its callback. Throws NO_ROUTE if
   * there is no such group, or the worker is no member (SspGroup.G5), FENCED, NODE_DEAD if the group cannot form or the
   * incarnation is over, QUEUE_FULL.
   */
  sync({ group: key, version, timeoutMs, waiter, ...holder }: SspSync): SspWaitId | undefined {
    const group = this.#groups.get(key);
    if (group === undefined)
      throw new WeighbridgeError("NO_ROUTE", `there is no SSP group ${key}: it was not initialised, or all have left`);
    this.#holders.check(holder);
    if (group.versions.memberAt(holder.worker)?.incarnation !== holder.incarnation)
      throw new WeighbridgeError("NO_ROUTE", `${nameOf(holder.worker)} is no member of SSP group ${key}: it has to init it first`);
    group.versions.advance(holder, version);
    group.lot.release(sspMinimum(group));
    if (group.versions.isFormed && group.versions.admits(version, group.tolerance)) return undefined;
    if (!this.#canForm(group)) throw cannotForm(group);
    const { worker } = holder;
    const parking = { worker, parameter: 0, clock: version, staleness: group.tolerance, bytes: 0, timeoutMs, read: waiter };
    return { group, parked: group.lot.park(parking) };
  }

  /** The caller gave it up. */
  cancel({ group, parked }: SspWaitId): void {
    group.lot.cancel(parked);
  }

  /**
   * The incarnation is over, or has left: no group waits for it (SspGroup.G3). Call it for every worker, member or not.
   */
  gone(holder: WorkerIncarnation): void {
    this.#holders.ended(holder);
    for (const [key, group] of this.#groups) {
      this.#end(group, holder);
      if (group.versions.memberCount === 0) this.#groups.delete(key);
      else if (!this.#canForm(group)) group.lot.failEverybody(cannotForm(group));
    }
  }

  /** The incarnation was taken for dead, and lives: it may init its groups again. */
  revived(holder: WorkerIncarnation): void {
    this.#holders.revived(holder);
  }

  /** Those of some keys, for another server. */
  save(isMeant: (key: bigint) => boolean): readonly SspGroupImage[] {
    const meant = [...this.#groups].filter(([key]) => isMeant(key));
    return meant.map(([key, { size, tolerance, versions }]) => ({ key: key.toString(), size, tolerance, versions: versions.save() }));
  }

  /** Continues groups of another server, in which no sync waits. */
  load(images: readonly SspGroupImage[]): void {
    for (const { key, size, tolerance, versions } of images) {
      const group = this.#create({ size, tolerance });
      group.versions.load(versions);
      this.#groups.set(BigInt(key), group);
    }
  }

  /** Groups of these keys are another server's: waiting syncs fail with `error`. */
  drop(isMeant: (key: bigint) => boolean, error: WeighbridgeError): void {
    for (const [key, { lot }] of this.#groups) {
      if (!isMeant(key)) continue;
      this.#groups.delete(key);
      lot.failEverybody(error);
    }
  }

  /** Ends all waiting syncs. */
  close(): void {
    for (const { lot } of this.#groups.values()) lot.failEverybody(new WeighbridgeError("CLOSED", "the server is closing"));
    this.#groups.clear();
  }

  #create({ size, tolerance }: { size: number; tolerance: number }): SspGroup {
    checkStaleness(tolerance);
    if (!Number.isSafeInteger(size) || size < 1 || size > SIZE_MAX) {
      throw badArgument(`an SSP group of ${size}: it has 1 to ${SIZE_MAX} members`);
    }
    if (this.#groups.size >= GROUPS_MAX) {
      throw new WeighbridgeError("QUEUE_FULL", `there are ${GROUPS_MAX} SSP groups already`, { retryable: true });
    }
    const versions = new StalenessController({ expectedCount: size });
    const lot = new ParkingLot({
      clock: this.#options.clock,
      readsMax: size * SYNCS_PER_MEMBER_MAX,
      bytesMax: 0,
      describeSlowest: () => versions.describeSlowest(),
    });
    lot.onLongWait = (worker, waits) => this.onLongWait(worker, waits);
    return { size, tolerance, versions, lot };
  }

  #end(group: SspGroup, holder: WorkerIncarnation): void {
    if (group.versions.withdraw(holder) === undefined) return;
    group.lot.failWorker(
      holder.worker,
      new WeighbridgeError("NODE_DEAD", `${nameOf(holder.worker)} was taken for dead, and has to init the group again`, {
        retryable: true,
      }),
    );
    group.lot.release(sspMinimum(group));
  }

  #canForm({ versions }: SspGroup): boolean {
    return this.#options.aliveCount() - versions.memberCount >= versions.missingCount;
  }
}

/** The minimum of syncs: none passes before the group has formed (SspGroup.G1), not even with a tolerance of 0. */
function sspMinimum({ versions }: SspGroup): number {
  return versions.isFormed ? versions.clockMin : -Infinity;
}

function cannotForm({ size, versions }: SspGroup): WeighbridgeError {
  const text = `an SSP group of ${size} cannot form: ${versions.missingCount} have not come, and fewer others are alive`;
  return new WeighbridgeError("NODE_DEAD", text, { retryable: true });
}
