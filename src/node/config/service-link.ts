// service-link — the variables that Kubernetes sets in every pod for every service of its namespace, and Docker for its links, named after the
// service. For a service "weighbridge-scheduler" at port 8000:
//
//   WEIGHBRIDGE_SCHEDULER_SERVICE_HOST             192.0.2.11
//   WEIGHBRIDGE_SCHEDULER_SERVICE_PORT             8000           and …_SERVICE_PORT_HTTP for a port that has a name
//   WEIGHBRIDGE_SCHEDULER_PORT                     tcp://192.0.2.11:8000
//   WEIGHBRIDGE_SCHEDULER_PORT_8000_TCP            tcp://192.0.2.11:8000, and …_TCP_PROTO, …_TCP_PORT, …_TCP_ADDR
//
// Invariants:
//   S1. No service link is configuration: it sets no key, and it is no mistake either.
//   S2. A variable of ours that has the name of a link is one only when its value is a link. `WEIGHBRIDGE_PORT=9000` is ours.

const LINK_NAME = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?)$/;
const LINK_VALUE = /^(?:tcp|udp|sctp):\/\//;

export function isServiceLink(name: string, value: string): boolean {
  return LINK_NAME.test(name) || (name.endsWith("_PORT") && LINK_VALUE.test(value));
}
