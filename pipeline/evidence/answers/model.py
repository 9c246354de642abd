"""What a layer's difference allows a whole model's to be."""

from pipeline.evidence.answers.applies import seconds
from pipeline.evidence.answers.found import Found, effect, scope
from pipeline.evidence.answers.words import percent, share_of, time
from pipeline.evidence.summary import Summary
from pipeline.questions import Figure
from pipeline.schema import Config


def bound(figure: Figure, held: Found, summary: Summary, config: Config) -> str:
    """Of a comparison that has an interval."""
    timed = f"here {scope(summary)} was timed ({held.comparison.metric})"
    said = f"the figure is of a whole model behind a server, {timed}{_saved(figure, held, summary, config)}"
    least, most = effect(figure, held.comparison)
    claimed = abs(figure.delta)
    if figure.delta == 0:
        return said
    if most < claimed:
        return (
            f"{said}: it differs by at most {percent(max(most, 0.0))} in that direction, so that in this setting a "
            f"model in which nothing else changes cannot differ by {percent(claimed)}"
        )
    if least <= 0:
        return f"{said}: no effect in that direction is certain"
    return (
        f"{said}: a model in which nothing else changes differs by {percent(claimed)} only if what was timed takes "
        f"{share_of(claimed / most, claimed / least)} of its time"
    )


def _saved(figure: Figure, held: Found, summary: Summary, config: Config) -> str:
    """In all layers of the kind, beside what was published of the model."""
    kind, times = (
        config.engine.layers,
        [seconds(held.case, arm, held.comparison.metric) for arm in (summary.baseline, held.arm)],
    )
    layers = config.model.schedule.count(kind)
    if figure.published is None or None in times or not layers:
        return ""
    before, after = figure.published.seconds
    return (
        f", which in {layers} {kind} layers changes {time(layers * (times[1] - times[0]))} a step where "
        f"{time(after - before)} was published"
    )
