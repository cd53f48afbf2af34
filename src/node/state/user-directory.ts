// user-directory — where this user's state of schedulers lies, and which jobs of theirs run on this machine.

import { homedir } from "node:os";
import { join, resolve } from "node:path";

export function userDirectory(): string {
  const { XDG_STATE_HOME = "" } = process.env;
  return join(XDG_STATE_HOME === "" ? join(homedir(), ".local", "state") : resolve(XDG_STATE_HOME), "weighbridge");
}
