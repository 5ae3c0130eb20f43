-- What a caller's key was answered when its request was no run. NULL where the key stands for a run.

ALTER TABLE idempotency ADD COLUMN answer TEXT;
