// barrier-releases — decides when each process that passed a barrier of our scheduler is released. The
// RegistrationService sends the release.
//
// Invariants:
//   BarrierReleases.X1. Servers are released SERVERS_FIRST_MS before workers: a server of ps-lite that gets a request
//       while it still waits at the barrier, without an application, waits for the application, reads nothing else, and
//       ends after 5 seconds.
//   BarrierReleases.X2. Workers do not wait if all servers are ours, nor while the job ends.
//   BarrierReleases.X3. Requests of our scheduler to a process leave after its release, for the reason of
//       BarrierReleases.X1. After the first barrier, that of the start, a process of ps-lite has SERVERS_FIRST_MS to
//       create its application.

import type { PsliteGateway } from "./gateway.ts";
import type { Registration } from "./registration.ts";
import type { RemoteProcess } from "./remote-process.ts";

export type Release = { readonly registration: Registration; readonly group: number; readonly round: number };

/** A server of ps-lite creates its application right after a barrier; on a busy machine that takes time. */
export const SERVERS_FIRST_MS = 100;

export class BarrierReleases {
  readonly #gateway: PsliteGateway;
  readonly #send: (release: Release) => void;
  /** Of the current turn: they are sent together. */
  #fresh: Release[] = [];
  /** Releases of workers that wait for those of servers (BarrierReleases.X1). */
  readonly #late: Release[] = [];
  /** Requests that wait for the end of a barrier, by their process (BarrierReleases.X3). */
  readonly #holds = new WeakMap<RemoteProcess, RequestHold>();
  readonly #letGo = new WeakMap<Release, () => void>();
  readonly #started = new WeakSet<RemoteProcess>();

  constructor(gateway: PsliteGateway, send: (release: Release) => void) {
    this.#gateway = gateway;
    this.#send = send;
  }

  add(release: Release): void {
    if (this.#fresh.length === 0) this.#gateway.clock.afterInput(() => this.#releaseFresh());
    this.#fresh.push(release);
    const { process } = release.registration;
    const hold = this.#holds.get(process) ?? new RequestHold();
    this.#holds.set(process, hold);
    this.#letGo.set(release, hold.hold());
  }

  /** Calls `send` now, or once this process is released from all barriers that it passed (BarrierReleases.X3). */
  whenReleased(process: RemoteProcess, send: () => void): void {
    const hold = this.#holds.get(process);
    if (hold === undefined) send();
    else hold.whenOpen(send);
  }

  /** Releases the workers now. */
  hurry(): void {
    for (const each of this.#late.splice(0)) this.#releaseOne(each);
  }

  #releaseOne(release: Release): void {
    const { process, extension } = release.registration;
    this.#send(release);
    const letGo = (): void => this.#letGo.get(release)?.();
    const isStart = !this.#started.has(process);
    this.#started.add(process);
    if (isStart && extension === undefined) this.#gateway.clock.after(SERVERS_FIRST_MS, letGo);
    else letGo();
  }

  #releaseFresh(): void {
    const fresh = this.#fresh;
    this.#fresh = [];
    const [workers, servers] = [fresh.filter(isWorker), fresh.filter((each) => !isWorker(each))];
    for (const each of servers) this.#releaseOne(each);
    this.#late.push(...workers);
    if (this.#gateway.isLeaving || servers.every(({ registration }) => registration.extension !== undefined))
      this.hurry(); // BarrierReleases.X2
    else this.#gateway.clock.after(SERVERS_FIRST_MS, () => this.hurry());
  }
}

function isWorker({ registration }: Release): boolean {
  return registration.role === "worker";
}

/** Requests that wait until a node can serve them, in order, also those that arrive while the first ones leave. */
export class RequestHold {
  #holdCount = 0;
  readonly #waiting: (() => void)[] = [];

  /** Nothing leaves until the returned function is called, and those of all other holds. */
  hold(): () => void {
    this.#holdCount++;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--this.#holdCount === 0) this.#drain();
    };
  }

  get isOpen(): boolean {
    return this.#holdCount === 0;
  }

  /** Calls `send` now, or in its turn once nothing holds it. */
  whenOpen(send: () => void): void {
    if (this.isOpen) send();
    else this.#waiting.push(send);
  }

  #drain(): void {
    while (this.isOpen) {
      const send = this.#waiting.shift();
      if (send === undefined) return;
      send();
    }
  }
}
