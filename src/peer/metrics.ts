// metrics — what a peer counts. Plain numbers that only rise; whoever exports them reads them.

export class PeerMetrics {
  framesReceived = 0;
  framesSent = 0;
  linksOpened = 0;
  /** Links that were not taken on, because too many without a node behind them are open. */
  linksRefused = 0;
  /** Links that ended with an error, ours or the system's. */
  linksBroken = 0;
  /** Links closed because the peer's bytes were not legal frames. */
  badFrames = 0;
  /** Links closed because the peer never said who it is, or said it wrongly. */
  badHellos = 0;
  /** Requests answered with a failure. */
  requestsFailed = 0;
  /** Requests that came again after they had been taken. */
  duplicates = 0;
  /** Requests refused because an earlier one was missing. */
  gaps = 0;
  /** Answers nobody waits for. */
  orphanAnswers = 0;
  /** Calls that were sent again. */
  resends = 0;
  /** Frames the fault injector dropped. */
  framesDropped = 0;
}
