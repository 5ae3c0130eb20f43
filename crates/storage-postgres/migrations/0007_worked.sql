-- How long a run has worked, in milliseconds, all attempts together: its deadline is one for all of them.

ALTER TABLE runs ADD COLUMN worked_ms bigint NOT NULL DEFAULT 0;
