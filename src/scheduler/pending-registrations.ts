// pending-registrations — what the scheduler keeps of a registration until it is answered: the caller, and what the
// node reports of a job that outlived its scheduler.

import { Deferred } from "../base/deferred.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";
import type { Channel } from "../peer/channel.ts";
import type { BarrierRequest, RendezvousHeld } from "../wire/control.ts";
import type { Generation } from "../wire/generation.ts";
import { nameOf, type Role } from "../wire/node-id.ts";
import type { CatalogueClaim, RegisterReply, RegisterRequest } from "../wire/register.ts";
import type { UnitsClaim } from "../wire/units-claim.ts";

export type PendingRegistration = {
  readonly channel: Channel;
  readonly role: Role;
  readonly token: string;
  readonly packageVersion: string | undefined;
  /** What it reports of barriers that an earlier scheduler kept. */
  readonly passed: readonly BarrierRequest[];
  /** The same of units. */
  readonly units: UnitsClaim;
  /** The generation of workers that it claims to be in. */
  readonly gathered: Generation | undefined;
  /** The rendezvous that it reports as held. */
  readonly rendezvous: readonly RendezvousHeld[];
  /** What it reports of the catalogue; left out by a new node. */
  readonly catalogue: CatalogueClaim | undefined;
  readonly reply: Deferred<RegisterReply>;
};

const NO_UNITS: UnitsClaim = { open: [], over: [] };

/** The open applications, by link: at most one each, which bounds what peers can make us keep. */
export class PendingRegistrations {
  readonly #registrations = new Map<Channel, PendingRegistration>();

  /**
   * Throws BAD_REQUEST for a link's second application, or one that claims another's slot; BAD_CONFIG with this
   * refusal.
   */
  open(
    channel: Channel,
    { role, label, token, packageVersion, resume, failure }: RegisterRequest,
    joinRefusal?: string,
  ): PendingRegistration {
    const { id, name, incarnation } = channel;
    if (joinRefusal !== undefined && failure === undefined) throw new WeighbridgeError("BAD_CONFIG", `${role} ("${label}") ${joinRefusal}`);
    if (this.#registrations.has(channel)) throw badRequest("this link has registered already, and waits for its rank");
    if (id > 0 && resume === undefined) throw badRequest(`${name} has registered already, and has its rank`);
    const isOwn = resume?.isStored === true ? id <= 0 : resume?.node === id && resume.incarnation === incarnation;
    if (resume !== undefined && !isOwn)
      throw badRequest(`${name} cannot resume the rank of ${nameOf(resume.node)} in incarnation ${resume.incarnation}`);
    const { passed = [], units = NO_UNITS, gathered, rendezvous = [], catalogue } = resume ?? {};
    const caller: PendingRegistration = {
      channel,
      role,
      token,
      packageVersion,
      passed,
      units,
      gathered,
      rendezvous,
      catalogue,
      reply: new Deferred(),
    };
    this.#registrations.set(channel, caller);
    return caller;
  }

  /** The application that this link has open, no longer so. */
  take(channel: Channel): PendingRegistration | undefined {
    const caller = this.#registrations.get(channel);
    this.#registrations.delete(channel);
    return caller;
  }

  /** It was answered. */
  close(caller: PendingRegistration): void {
    if (this.#registrations.get(caller.channel) === caller) this.#registrations.delete(caller.channel);
  }
}
