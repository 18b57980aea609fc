// pg-boss by its own fetch and complete in a bare loop: its workers pause between two fetches.
import PgBoss from "pg-boss";

const loops = 4;
const batchSize = 500;
const pause = 5; // milliseconds, when there is nothing
let boss, stopped, running;

export async function attach(connectionString, schema) {
  boss = new PgBoss({ connectionString, schema, max: 16, supervise: false, schedule: false });
  boss.on("error", (err) => console.error("pg-boss:", err));
  await boss.start();
}

export async function prepare(connectionString, schema) {
  await attach(connectionString, schema);
  await boss.createQueue("bench");
}

export const enqueueOne = (task) => boss.send("bench", task);
export const enqueueMany = (tasks) => boss.insert(tasks.map((task) => ({ name: "bench", data: task })));

export async function start(handled) {
  stopped = false;
  running = Array.from({ length: loops }, async () => {
    while (!stopped) {
      const jobs = await boss.fetch("bench", { batchSize });
      if (jobs.length === 0) {
        await new Promise((resolve) => setTimeout(resolve, pause));
        continue;
      }
      for (const job of jobs) handled(job.data);
      await boss.complete("bench", jobs.map((job) => job.id));
    }
  });
}

export async function stop(now) {
  stopped = true;
  await Promise.all(running);
  return now();
}

export async function close() {
  stopped = true;
  await boss?.stop({ graceful: false, wait: false });
}
