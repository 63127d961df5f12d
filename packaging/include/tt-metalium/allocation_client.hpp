// The name under which programs include TT-Metal's experimental allocation client. AllocationClient is in ttmon.hpp.
#pragma once
#include "../ttmon.hpp"
