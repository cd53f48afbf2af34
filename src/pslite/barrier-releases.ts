// barrier-releases — the processes that passed a barrier of our scheduler, and when each of them is told. What it is
// told is the registrar's.
//
// Invariants:
//   X1. Servers hear that a barrier is over before workers do: a server of ps-lite that gets a request while it still
//       waits there, and has no application yet, waits for that one and reads nothing else, and ends after 5 seconds.
//       So they hear it SERVERS_FIRST_MS before.
//   X2. Nobody waits for servers that are all ours, nor when everybody is leaving.
//   X3. What our scheduler asks of a process that passed a barrier leaves after the end of that barrier: the process
//       would wait for its application and read nothing else, as in X1. After the first one, the start's, a process of
//       ps-lite has SERVERS_FIRST_MS to make its application.

import type { PsliteGateway } from "./gateway.ts";
import type { Registration } from "./registration.ts";
import type { RemoteProcess } from "./remote-process.ts";
import { RequestHold } from "./request-hold.ts";

export type Release = { readonly registration: Registration; readonly group: number; readonly round: number };

/**
 * From the end of a barrier to an application with its handle is no wait in a server of ps-lite; on a machine with much
 * to do it takes time.
 */
export const SERVERS_FIRST_MS = 100;

export class Releases {
  readonly #gateway: PsliteGateway;
  readonly #send: (release: Release) => void;
  /** Of the present turn: they are told together. */
  #fresh: Release[] = [];
  /** Of workers that wait for those of servers (X1). */
  readonly #late: Release[] = [];
  /** What waits for the end of a barrier, by the process that it is for (X3). */
  readonly #holds = new WeakMap<RemoteProcess, RequestHold>();
  readonly #letGo = new WeakMap<Release, () => void>();
  readonly #started = new WeakSet<RemoteProcess>();

  constructor(gateway: PsliteGateway, send: (release: Release) => void) {
    this.#gateway = gateway;
    this.#send = send;
  }

  add(release: Release): void {
    if (this.#fresh.length === 0) this.#gateway.clock.afterInput(() => this.#tell());
    this.#fresh.push(release);
    const { process } = release.registration;
    const hold = this.#holds.get(process) ?? new RequestHold();
    this.#holds.set(process, hold);
    this.#letGo.set(release, hold.hold());
  }

  /** Calls `send` now, or once this process has heard of all barriers that it passed (X3). */
  whenHeard(process: RemoteProcess, send: () => void): void {
    const hold = this.#holds.get(process);
    if (hold === undefined) send();
    else hold.whenOpen(send);
  }

  /** Workers whose servers have had their time, or need none any more. */
  hurry(): void {
    for (const each of this.#late.splice(0)) this.#tellOne(each);
  }

  #tellOne(release: Release): void {
    const { process, extension } = release.registration;
    this.#send(release);
    const letGo = (): void => this.#letGo.get(release)?.();
    const isStart = !this.#started.has(process);
    this.#started.add(process);
    if (isStart && extension === undefined) this.#gateway.clock.after(SERVERS_FIRST_MS, letGo);
    else letGo();
  }

  #tell(): void {
    const fresh = this.#fresh;
    this.#fresh = [];
    const [workers, servers] = [fresh.filter(isWorker), fresh.filter((each) => !isWorker(each))];
    for (const each of servers) this.#tellOne(each);
    this.#late.push(...workers);
    if (this.#gateway.isLeaving || servers.every(({ registration }) => registration.extension !== undefined))
      this.hurry(); // X2
    else this.#gateway.clock.after(SERVERS_FIRST_MS, () => this.hurry());
  }
}

function isWorker({ registration }: Release): boolean {
  return registration.role === "worker";
}
