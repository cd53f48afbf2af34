// training-node — the script of every process of a training job: its argument is the plan, its environment says which
// node it is. It sets up its end (process-end.ts) before it loads the rest, so that any failure meanwhile is reported.

import { endProcess } from "./process-end.ts";
import type { TrainingRole } from "./training-role.ts";

const { WEIGHBRIDGE_ROLE: role = "node", WEIGHBRIDGE_RANK: rank = "" } = process.env; // Set by the launcher.
let own: TrainingRole | undefined;

endProcess({
  name: role === "scheduler" ? role : `${role}/${rank}`,
  leave: async () => await own?.leave?.(),
  position: () => own?.position ?? "before the first step",
  run: async () => {
    const { openRole } = await import("./training-role.ts");
    own = await openRole(process.argv[2] ?? "");
    await own.run();
  },
});
