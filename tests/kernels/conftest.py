import pytest
import torch


@pytest.fixture(params=["cpu", *["cuda"] * torch.cuda.is_available()])
def device(request: pytest.FixtureRequest) -> str:
    return request.param
