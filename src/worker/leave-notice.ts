// leave-notice — tells a worker that its job is to have fewer workers, and that it is one of those that leave
// (docs/decisions/0074): the roster says so of its incarnation. It leaves when it is done with what others count on.

import type { Membership } from "../cluster/membership.ts";

/** Fires once. */
export function leaveNotice(membership: Membership): AbortSignal {
  const notice = new AbortController();
  membership.onRoster(({ nodes }) => {
    const own = nodes.find(({ node }) => node === membership.node);
    if (own?.isRetired === true && own.incarnation === membership.incarnation) notice.abort();
  });
  return notice.signal;
}
